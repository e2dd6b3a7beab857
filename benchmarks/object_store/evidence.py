"""The evidence that is read: a log and a flight-recorder dump for each rank of a stalled job, as large as one wants."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from unhang_lab.dump_writer import StalledJob

BUCKET = "evidence"
DUMP = "comm_lib_trace_rank_"
_END = datetime(2026, 11, 26, 12, 30)  # noqa: DTZ001 - logs name no zone
_STEP_S = 2.31
_WARNING = (
    "/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:295: FutureWarning: "
    "`torch.cpu.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cpu', args...)` instead."
)
_HANDLED = (
    "WARNING train.loader shard-{shard:05d}.tar could not be read, it is tried again",
    "Traceback (most recent call last):",
    '  File "/srv/train/loader.py", line 118, in fetch',
    "    return self.decode(self.store.read(key))",
    "TimeoutError: shard-{shard:05d}.tar: no answer after 30 s, trying again",
)
_OUT_OF_MEMORY = (
    "Traceback (most recent call last):",
    '  File "/srv/train/train.py", line 212, in main',
    "    loss = model(batch).loss",
    '  File "/srv/train/model.py", line 88, in forward',
    "    hidden = self.expand(hidden)",
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.37 GiB. GPU {device} has a total capacity of "
        "79.11 GiB of which 1.02 GiB is free. Process {pid} has 78.08 GiB memory in use."
    ),
)
_TIMED_OUT = (
    (
        "[rank{rank}]:[E1126 12:40:{s:02d}.214000000 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=512, NumelOut=512, "
        "Timeout(ms)=600000) ran for 6000{s:02d} milliseconds before timing out."
    ),
    (
        "[rank{rank}]:[E1126 12:40:{s:02d}.216000000 ProcessGroupNCCL.cpp:2252] [PG ID 0 PG GUID 0(default_pg) Rank "
        "{rank}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, last "
        "completed work: {before}"
    ),
)


@dataclass(frozen=True, slots=True)
class Store:
    """A folder whose folders are buckets, and the ``size`` in bytes of what lies in the only one."""

    root: Path
    size: int

    @property
    def folder(self) -> Path:
        """The evidence as files."""
        return self.root / BUCKET


@dataclass(frozen=True, slots=True)
class Shape:
    """How much evidence: ``log_bytes`` and ``entries`` of the recorder for each rank.

    ``cause``: ``late`` (the laggard's own dump tells who waits for it) or ``oom`` (it crashed, left no dump, and only
    one traceback in the middle of its log says why). ``distinct``: beyond so many ranks files are hard links to those
    before, which an object store shows as objects of their own.
    """

    ranks: int
    log_bytes: int
    entries: int
    cause: str = "oom"
    distinct: int | None = None

    @property
    def job(self) -> StalledJob:
        """Whose dumps they are."""
        return StalledJob(self.ranks, entries=self.entries)


def write_evidence(folder: Path, shape: Shape) -> int:
    """Write it into ``folder`` (``logs/rank_N.log``, ``dumps/…``); gives the bytes that a reader of it all fetches."""
    (folder / "logs").mkdir(parents=True)
    (folder / "dumps").mkdir()
    size = _write_dumps(folder / "dumps", shape) if shape.entries else 0
    return size + (_write_logs(folder / "logs", shape) if shape.log_bytes else 0)


def _write_dumps(folder: Path, shape: Shape) -> int:
    late = shape.job.laggard

    def content(ranks: int) -> Iterator[tuple[int, bytes]]:
        for rank, dump in shape.job.dumps(ranks):
            if not (shape.cause == "oom" and rank == late):
                yield rank, dump

    return _write(shape, lambda rank: folder / f"{DUMP}{rank}", content)


def _write_logs(folder: Path, shape: Shape) -> int:
    bodies = [_body(shape.log_bytes, seed) for seed in range(4)]

    def content(ranks: int) -> Iterator[tuple[int, bytes]]:
        for rank in range(ranks):
            body = bodies[rank % len(bodies)]
            yield rank, _of_laggard(body, shape) if rank == shape.job.laggard else body + _end(rank, shape)

    return _write(shape, lambda rank: folder / f"rank_{rank}.log", content)


def _write(shape: Shape, path_of: Callable[[int], Path], content: Callable[[int], Iterator[tuple[int, bytes]]]) -> int:
    written: list[tuple[Path, int]] = []
    for rank, data in content(min(shape.ranks, shape.distinct or shape.ranks)):
        path_of(rank).write_bytes(data)
        if rank != shape.job.laggard:
            written.append((path_of(rank), len(data)))
    size = sum(path.stat().st_size for path in path_of(0).parent.iterdir())
    for rank in range(shape.distinct or shape.ranks, shape.ranks):
        path, length = written[rank % len(written)]
        os.link(path, path_of(rank))
        size += length
    return size


def _body(size: int, seed: int) -> bytes:
    """Steps that go well, with what programs print between them: ``size`` bytes of lines that name no rank."""
    chance = random.Random(seed)
    lines = list(_lines(max(1, size // 130), chance))
    kept, left = [], size
    for line in reversed(lines):  # the end is what is wanted: the clock runs up to it
        left -= len(line) + 1
        if left < 0:
            break
        kept.append(line)
    return ("\n".join(reversed(kept)) + "\n").encode("ascii")


def _lines(steps: int, chance: random.Random) -> Iterator[str]:
    for step in range(1, steps + 1):
        clock = _END - timedelta(seconds=_STEP_S * (steps - step))
        told = clock.isoformat(" ", "milliseconds").replace(".", ",")
        yield (
            f"{told} INFO train.loop step {step:7d}/9000000 | loss {chance.random() * 4:.4f} | grad norm "
            f"{chance.random():.3f} | lr 3.0e-04 | {_STEP_S} s/it | tokens {step * 4194304:,}"
        )
        if chance.random() < 0.01:
            yield _WARNING
        if chance.random() < 0.001:
            shard = chance.randrange(99_999)
            yield from (f"{told} {_HANDLED[0].format(shard=shard)}", *(one.format(shard=shard) for one in _HANDLED[1:]))


def _of_laggard(body: bytes, shape: Shape) -> bytes:
    rank = shape.job.laggard
    if shape.cause == "late":
        return body + b"2026-11-26 12:30:01,002 INFO train.save writing the checkpoint\n"
    told = "\n".join(_OUT_OF_MEMORY).format(device=rank % 8, pid=4000 + rank)
    return body + told.encode("ascii") + b"\n"


def _end(rank: int, shape: Shape) -> bytes:
    """What the watchdog of a rank that waits prints; nothing where other ranks share the file."""
    if shape.distinct is not None:
        return b""
    seq = shape.job.last_position
    lines = (line.format(rank=rank, s=rank % 60, seq=seq, before=seq - 1) for line in _TIMED_OUT)
    return ("\n".join(lines) + "\n").encode("ascii")
