"""Facts made for the report tests: jobs of any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.report.report_samples import HOSTILE, TRAIN, TRAIN_SOURCE
from unhang.evidence.items import (
    Frame,
    LogEvent,
    LogReading,
    RecorderEntries,
    Signature,
    SourceFile,
    StackDump,
    ThreadStack,
)
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
    Evidence,
    Phase,
    Source,
    Where,
)


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
            {rank: GroupProgress(rank, 8336, 8336, None, "dump") for rank in members},
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
        mismatches=(),
        all_joined_stalls=(),
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
    entries: dict[int, RecorderEntries] = {}
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
                evidence,
                25_600_000,
                "bfloat16",
                Where(TRAIN, 15, "train"),
                (),
                1772395869.0,
                600_000,
            )
        )
        enqueued = 1041 if late else 1042 + (rank % 7 == 0) * 2
        progress[rank] = GroupProgress(rank, enqueued, 1041, pending, "dump")
    for rank in (0, laggard):
        entries[rank] = _entries(signature, range(1000, 1042 if rank == laggard else 1045))
    return GroupFacts("0", "default_pg", tuple(range(ranks)), True, True, progress, (), entries)


def _entries(signature: Signature, positions: range) -> RecorderEntries:
    n = len(positions)
    zeros = np.zeros(n, np.int64)
    barrier = Signature("barrier", None, ((1,),), ((1,),), ("float",), ("float",))
    position = np.asarray(positions, np.int64)
    return RecorderEntries(
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
    made.ranks = {rank: replace(known, state=RankState.WAITING) for rank, known in made.ranks.items()}
    return made


def nothing() -> Facts:
    """No rank, no group, no stack."""
    made = facts(0)
    made.groups, made.sources = {}, {}
    return made
