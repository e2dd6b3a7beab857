"""Verdicts made for the report tests: one of each kind."""

from __future__ import annotations

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
)
from unhang.sentences import say

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
