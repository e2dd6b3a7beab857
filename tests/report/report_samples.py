"""Verdicts and facts made for the report tests: one of each kind, and jobs of any size."""

from __future__ import annotations

import numpy as np

from unhang.evidence.items import Entries, Frame, LogEvent, LogReading, Signature, SourceFile, StackDump, ThreadStack
from unhang.facts.model import (
    Activity,
    CodeContext,
    Facts,
    GroupFacts,
    GroupProgress,
    PendingCall,
    RankFacts,
    RankState,
    WaitEdge,
    WaitForGraph,
)
from unhang.findings import (
    Call,
    Cause,
    Certainty,
    Consequence,
    Evidence,
    Finding,
    NotChecked,
    Phase,
    Remedy,
    RemedyKind,
    Restart,
    RuledOut,
    Severity,
    Source,
    Status,
    Unread,
    Verdict,
    Where,
    say,
)

TRAIN = "/home/mlee/pretrain/train.py"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> {{7*7}} \x1b[31mred\x1b[0m \u202egnp.exe \x00"

TRAIN_SOURCE = """\
import torch
import torch.distributed as dist


def build_loader(dataset, rank):
    # every rank shuffles for itself
    files = list(dataset.files)
    random.shuffle(files)
    return files[rank :: dist.get_world_size()]


def train(model, loader, optimizer):
    for step, batch in enumerate(loader):
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return step


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    loader = build_loader(dataset, rank)
    train(model, loader, optimizer)
    torch.save(model.state_dict(), f"out/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""

SEED = Remedy(
    title=say("Give the split of the files one seed on all ranks"),
    kind=RemedyKind.CODE,
    change=say(
        "In build_loader, shuffle with a generator every rank seeds alike:\n\n    files = sorted(dataset.files)\n"
        "    random.Random(seed).shuffle(files)"
    ),
    cost=say("Nothing; the order of the files changes once."),
    verify=say("Print len(loader) on every rank: the numbers must be equal."),
)


def hang(ranks: int = 8, laggard: int = 3) -> Verdict:
    others = tuple(rank for rank in range(ranks) if rank != laggard)
    finding = Finding(
        cause=Cause.UNEVEN_DATA,
        certainty=Certainty.CERTAIN,
        severity=Severity.STOPS,
        summary=say(
            "Rank {rank} ran out of batches at step {step} and left the loop; the others wait for it in {operation}.",
            rank=laggard,
            step=1041,
            operation="all_reduce",
        ),
        ranks=(laggard,),
        nodes=("gpu-a17",),
        group="default_pg",
        phase=Phase.SAVE,
        where=Where(TRAIN, 26, "main"),
        waiter_where=Where(TRAIN, 15, "train"),
        calls=(Call(others, "all_reduce", 1042, 25_600_000, "bfloat16"),),
        because=(
            say(
                "Ranks {ranks} are inside {operation} number {position}; rank {rank} finished number {last} and "
                "never entered it.",
                ranks=others,
                operation="all_reduce",
                position=1042,
                rank=laggard,
                last=1041,
            ),
            say("Rank {rank} is past the training loop: it is saving at {place}.", rank=laggard, place="train.py:26"),
            say("The loop runs once for every batch, and the batches are split without a seed (train.py:8)."),
        ),
        evidence=(
            Evidence(Source("dumps/nccl_trace_rank_3", byte=81920), "last completed 1041, last enqueued 1041", laggard),
            Evidence(
                Source("logs/3.log", line=2210), "step 1041/1041 done, saving", laggard, "2026-03-02T04:11:09+08:00"
            ),
            Evidence(
                Source("logs/0.log", line=2209),
                "[rank0]:[E302 04:21:09] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=1042, OpType=ALLREDUCE, NumelIn=25600000, NumelOut=25600000, Timeout(ms)=600000) ran "
                "for "
                "600031 milliseconds before timing out.",
                0,
                "2026-03-02T04:21:09+08:00",
            ),
            Evidence(Source("stacks/3.txt", line=4), "main (train.py:26)", laggard),
        ),
        remedies=(SEED,),
        consequences=(
            Consequence(
                Cause.TIMEOUT_TOO_SHORT,
                others,
                len(others),
                say("{count} ranks timed out in the watchdog", count=len(others)),
            ),
        ),
    )
    return Verdict(
        status=Status.HANG,
        world_size=ranks,
        ranks_seen=tuple(range(ranks)),
        ranks_missing=(),
        findings=(finding,),
        ruled_out=(
            RuledOut(
                Cause.NETWORK_FAULT,
                say("Rank {rank} never entered the collective, so nothing was on the wire.", rank=laggard),
            ),
            RuledOut(Cause.COLLECTIVE_MISMATCH, say("All waiters called the same operation with the same size.")),
        ),
        not_checked=(
            NotChecked(
                say("Was the card of rank {rank} healthy", rank=laggard),
                say("no kernel log was given"),
                "sudo dmesg --time-format iso --level err,warn | "
                "unhang diagnose --format json --lang en - dumps/ logs/ stacks/",
            ),
        ),
        unread=(
            Unread(
                Source("dumps/nccl_trace_rank_5.tmp", byte=8192),
                "The dump is cut short; 1,204 entries before the cut were used.",
            ),
        ),
        restart=Restart(
            "after-change", (), "/home/mlee/pretrain/out/step_1000", say("It would stop again at the same step.")
        ),
        stalled_since="2026-03-02T04:11:09+08:00",
    )


def healthy() -> Verdict:
    return Verdict(
        Status.HEALTHY,
        8,
        tuple(range(8)),
        (),
        (),
        ruled_out=(RuledOut(Cause.SLOW_RANK, say("All ranks moved from step {a} to step {b}.", a=100, b=130)),),
    )


def slow() -> Verdict:
    finding = Finding(
        Cause.SINGLE_RANK_WORK,
        Certainty.LIKELY,
        Severity.SLOWS,
        say("Rank 0 writes TensorBoard images for 40 s every 100 steps while the others wait."),
        ranks=(0,),
        phase=Phase.LOG,
        where=Where("train.py", 71, "log_images"),
        remedies=(
            Remedy(
                say("Write in a thread"),
                RemedyKind.CODE,
                say("Hand the images to a background writer."),
                say("A little memory."),
                say("Step time stays even at multiples of 100."),
            ),
        ),
    )
    return Verdict(Status.SLOW, 4, (0, 1, 2, 3), (), (finding,))


def crash() -> Verdict:
    finding = Finding(
        Cause.GPU_HARDWARE,
        Certainty.CERTAIN,
        Severity.STOPS,
        say(
            "The GPU of rank {rank} on {node} fell off the bus (Xid {xid}); the other ranks timed out after it.",
            rank=12,
            node="gpu-b04",
            xid=79,
        ),
        ranks=(12,),
        nodes=("gpu-b04",),
        because=(say("The kernel reported Xid {xid} {seconds} s before the first timeout.", xid=79, seconds=601),),
        evidence=(
            Evidence(
                Source("dmesg.txt", line=88),
                "NVRM: Xid (PCI:0000:3b:00): 79, pid=4312, GPU has fallen off the bus.",
                None,
                "2026-03-02T04:11:05+08:00",
            ),
            Evidence(
                Source("dmesg.txt", line=89),
                "NVRM: GPU GPU-5d2f1c7e-88f0-4b9c-9d5e-0a1b2c3d4e5f at PCI:0000:3b:00 is lost.",
                None,
            ),
        ),
        remedies=(
            Remedy(
                say("Take node {node} out of the job and restart from the last checkpoint", node="gpu-b04"),
                RemedyKind.CONFIG,
                say("srun --exclude=gpu-b04 …"),
                say("One node less."),
                say("No new Xid in dmesg."),
            ),
            Remedy(
                say("Please drain the node and replace or reseat the card."),
                RemedyKind.INFRASTRUCTURE,
                say("Reseat or replace the card."),
                say("The node is down meanwhile."),
                say("dcgmi diag -r 3 passes."),
            ),
        ),
        consequences=(
            Consequence(Cause.RANK_CRASHED, (12,), 1),
            Consequence(Cause.TIMEOUT_TOO_SHORT, tuple(r for r in range(64) if r != 12), 63),
        ),
    )
    return Verdict(Status.CRASH, 64, tuple(range(64)), (), (finding,), restart=Restart("without-node", ("gpu-b04",)))


def unknown() -> Verdict:
    finding = Finding(
        Cause.UNKNOWN,
        Certainty.POSSIBLE,
        Severity.STOPS,
        say("A collective of 4 ranks outlasted its limit of 600 s; this log does not show which rank was late."),
        because=(say("NumelOut is 4 times NumelIn, so the group has 4 ranks."),),
        evidence=(
            Evidence(
                Source("paste.txt", line=1),
                "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1474236, OpType=_ALLGATHER_BASE)",
            ),
        ),
        remedies=(
            Remedy(
                say("Record what every rank does"),
                RemedyKind.COLLECT,
                say("Run again with the flight recorder on."),
                say("A few megabytes a rank."),
                say("A file a rank appears at the next timeout."),
                {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"},
            ),
        ),
    )
    other = Finding(
        Cause.NETWORK_FAULT,
        Certainty.POSSIBLE,
        Severity.STOPS,
        say("A link may have failed; nothing in the log speaks for or against it."),
    )
    return Verdict(
        Status.UNKNOWN,
        None,
        (0,),
        (),
        (finding, other),
        not_checked=(NotChecked(say("The other ranks"), say("their logs are not here"), "unhang diagnose attempt_0/"),),
    )


def hostile() -> Verdict:
    finding = Finding(
        Cause.RANK_CRASHED,
        Certainty.LIKELY,
        Severity.STOPS,
        say("Rank 1 ended: {message}", message=HOSTILE),
        ranks=(1,),
        nodes=(HOSTILE,),
        group=HOSTILE,
        where=Where(f"/tmp/{HOSTILE}.py", 3, HOSTILE),
        because=(say("It said {text}", text=HOSTILE),),
        evidence=(
            Evidence(Source(f"{HOSTILE}.log", line=3), HOSTILE * 40, 1, HOSTILE),
            Evidence(
                Source("net.log", line=1),
                "GET https://bob:hunter2secret@example.com/x?token=abcdef123456 WANDB_API_KEY=0123456789abcdef",
                1,
            ),
        ),
        remedies=(Remedy(say("Read {x}", x=HOSTILE), RemedyKind.CODE, say("{x}", x=HOSTILE), say(""), say("")),),
    )
    return Verdict(Status.CRASH, 2, (0, 1), (), (finding,), unread=(Unread(Source(HOSTILE), HOSTILE),))


ALL = {"hang": hang, "healthy": healthy, "slow": slow, "crash": crash, "unknown": unknown, "hostile": hostile}


# -- facts -------------------------------------------------------------------------------------------


def facts(ranks: int = 8, laggard: int = 3, *, nasty: bool = False) -> Facts:
    """A data-parallel job with one laggard, plus tensor-parallel groups of 8 that wait for nothing."""
    allreduce = Signature("all_reduce", None, ((25_600_000,),), ((25_600_000,),), ("bfloat16",), ("bfloat16",))
    by_rank = {rank: _rank(rank, rank == laggard, nasty) for rank in range(ranks)}
    groups = {"0": _default_group(ranks, laggard, allreduce)}
    for first in range(0, ranks, 8):
        members = tuple(range(first, min(first + 8, ranks)))
        name = str(1 + first // 8)
        groups[name] = GroupFacts(
            name,
            f"tp_{first // 8}",
            members,
            True,
            False,
            {rank: GroupProgress(rank, name, 8336, 8336, None, "dump") for rank in members},
            (),
        )
    waiters = tuple(rank for rank in range(ranks) if rank != laggard)
    edges = tuple(WaitEdge(rank, laggard, "0", 1042, "not-entered") for rank in waiters)
    events = tuple(
        LogEvent(
            "wd.timeout" if n == 4 else "other",
            Source("logs/0.log", 2205 + n),
            HOSTILE if nasty else f"line {2205 + n} of the log of rank 0",
            0,
            None,
        )
        for n in range(9)
    )
    reading = LogReading(Source("logs/0.log"), 0, events, (), (), (), (), 2300, (0,))
    return Facts(
        world_size=ranks,
        ranks=by_rank,
        groups=groups,
        graph=WaitForGraph(edges, (laggard,), (), waiters),
        disagreements=(),
        symmetric=(),
        stalls=(),
        straggler=None,
        logs=(reading,),
        events=events,
        tracebacks=(),
        exits=(),
        manifests=(),
        sources={TRAIN: SourceFile(Source("sources/train.py"), TRAIN, TRAIN_SOURCE)},
        unread=(),
        not_checked=(),
        inputs=("logs",),
    )


def _rank(rank: int, late: bool, nasty: bool) -> RankFacts:
    library = "/home/mlee/env/lib/python3.11/site-packages/torch"
    if late:
        frames = (
            Frame("save", f"{library}/serialization.py", 965),
            Frame("main", TRAIN, 26),
            Frame("<module>", TRAIN, 32),
        )
    else:
        frames = (
            Frame("ncclGroupEnd", "libnccl.so.2", None, True),
            Frame("all_reduce", f"{library}/distributed/distributed_c10d.py", 2806),
            Frame("backward", f"{library}/autograd/__init__.py", 347),
            Frame("train", TRAIN, 15),
            Frame("main", TRAIN, 25),
            Frame("<module>", TRAIN, 32),
        )
    if nasty:
        frames = (Frame(HOSTILE, HOSTILE, 1), *frames)
    thread = ThreadStack("MainThread", "1", frames, None, None, 3)
    dump = StackDump(Source(f"stacks/{rank}.txt"), rank, 1000 + rank, (thread,), "py-spy")
    evidence = Evidence(Source(f"stacks/{rank}.txt", 3), frames[0].function, rank)
    activity = Activity(
        Phase.SAVE if late else Phase.COMMUNICATION,
        "torch-save" if late else "collective",
        Where(TRAIN, 26 if late else 15, "main" if late else "train"),
        frames,
        thread,
        CodeContext.AFTER_LOOP if late else CodeContext.INSIDE_LOOP,
        evidence,
    )
    return RankFacts(
        rank,
        f"gpu-a{rank // 8:02d}",
        1000 + rank,
        rank % 8,
        RankState.LAGGARD if late else RankState.WAITING,
        stack=dump,
        activity=activity,
    )


def _default_group(ranks: int, laggard: int, signature: Signature) -> GroupFacts:
    progress = {}
    entries: dict[int, Entries] = {}
    for rank in range(ranks):
        late = rank == laggard
        evidence = Evidence(Source(f"dumps/nccl_trace_rank_{rank}", byte=81920), "last completed 1041", rank)
        pending = (
            None
            if late
            else PendingCall(
                "0",
                1042,
                signature,
                "all_reduce",
                25_600_000,
                "bfloat16",
                Where(TRAIN, 15, "train"),
                (),
                1772395869.0,
                600_000,
                evidence,
            )
        )
        enqueued = 1041 if late else 1042 + (rank % 7 == 0) * 2
        progress[rank] = GroupProgress(rank, "0", enqueued, 1041, pending, "dump", evidence=evidence)
    for rank in (0, laggard):
        entries[rank] = _entries(signature, range(1000, 1042 if rank == laggard else 1045))
    return GroupFacts("0", "default_pg", tuple(range(ranks)), True, True, progress, (), entries)


def _entries(signature: Signature, positions: range) -> Entries:
    n = len(positions)
    zeros = np.zeros(n, np.int64)
    barrier = Signature("barrier", None, ((1,),), ((1,),), ("float",), ("float",))
    position = np.asarray(positions, np.int64)
    return Entries(
        record_id=position,
        pg_id=zeros,
        group=zeros,
        position=position,
        is_p2p=np.zeros(n, np.bool_),
        signature=(position % 16 == 0).astype(np.int64),
        state=np.where(position < 1042, 2, 0).astype(np.int8),
        retired=position < 1042,
        created_ns=zeros,
        started_ns=zeros,
        completed_ns=zeros,
        timeout_ms=zeros + 600_000,
        stack=zeros - 1,
        byte=zeros - 1,
        group_names=(("0", "default_pg"),),
        signatures=(signature, barrier),
        stacks=(),
    )


def cycle() -> Facts:
    """Three ranks, each waiting for the next."""
    made = facts(3)
    edges = tuple(WaitEdge(rank, (rank + 1) % 3, "0", 7, "not-entered") for rank in range(3))
    made.graph = WaitForGraph(edges, (), ((0, 1, 2),), (0, 1, 2))
    for known in made.ranks.values():
        known.state = RankState.WAITING
    return made


def nothing() -> Facts:
    """No rank, no group, no stack."""
    made = facts(0)
    made.groups, made.sources = {}, {}
    return made
