"""Write the log of a large job as one merged file: everything such logs hold, in the order of a job's life."""

# ruff: noqa: E501 - lines of logs are as long as programs print them

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

_INFO = (
    "NCCL INFO Bootstrap: Using eth0:10.0.{node}.5<0>",
    "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.{node}.5<0>",
    "NCCL INFO NCCL_DEBUG set by environment to INFO.",
    (
        "NCCL INFO comm 0x55d{rank:06x} rank {rank} nranks {ranks} cudaDev {device} nvmlDev {device} busId {device}b000 "
        "commId 0xebe385fab26d7bd - Init START"
    ),
    "NCCL INFO Setting affinity for GPU {device} to ffff,ffffffff,00000000,0000ffff",
    "NCCL INFO Trees [0] {a}/{b}/-1->{rank}->-1 [1] {a}/{b}/-1->{rank}->{a}",
    "NCCL INFO P2P Chunksize set to 131072",
    "NCCL INFO Channel {channel:02d}/0 : {a}[{da}] -> {rank}[{device}] [receive] via NET/IB/{net}/GDRDMA",
    "NCCL INFO Channel {channel:02d}/0 : {rank}[{device}] -> {near}[{dn}] via P2P/CUMEM/read",
    "NCCL INFO Channel {channel:02d}/0 : {rank}[{device}] -> {b}[{db}] [send] via NET/IB/{net}/GDRDMA",
    "NCCL INFO Connected all rings",
    (
        "NCCL INFO comm 0x55d{rank:06x} rank {rank} nranks {ranks} cudaDev {device} nvmlDev {device} busId {device}b000 "
        "commId 0xebe385fab26d7bd - Init COMPLETE"
    ),
)
_WARNINGS = (
    (
        "/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:295: FutureWarning: "
        "`torch.cpu.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cpu', args...)` instead."
    ),
    (
        "/opt/venv/lib/python3.11/site-packages/transformers/tokenization_utils_base.py:2614: UserWarning: `max_length` "
        "is ignored when `padding`=`True` and there is no truncation strategy."
    ),
    (
        "[W1121 08:10:12.123456789 Module.cpp:178] symbolizing C++ stack trace for exception; if this hangs, rerun with "
        "TORCH_DISABLE_ADDR2LINE=1..."
    ),
    (
        "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling "
        "parallelism to avoid deadlocks..."
    ),
)
_HANDLED = (
    "{clock},117 WARNING train.loader shard-{shard:05d}.tar could not be read, it is tried again",
    "Traceback (most recent call last):",
    '  File "/srv/train/loader.py", line 118, in fetch',
    "    return self.decode(self.store.read(key))",
    '  File "/srv/train/storage.py", line 64, in read',
    "    return self.client.get(key)",
    "TimeoutError: shard-{shard:05d}.tar: no answer after 30 s, trying again",
)
_END = (
    (
        "[rank{rank}]:[E1121 12:40:{s:02d}.{us:06d}000 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=88172, OpType=ALLREDUCE, NumelIn=67108864, NumelOut=67108864, "
        "Timeout(ms)=600000) ran for 6000{s:02d} milliseconds before timing out."
    ),
    (
        "[rank{rank}]:[E1121 12:40:{s:02d}.{us:06d}000 ProcessGroupNCCL.cpp:2252] [PG ID 0 PG GUID 0(default_pg) Rank "
        "{rank}]  failure detected by watchdog at work sequence id: 88172 PG status: last enqueued work: 88173, last "
        "completed work: 88171"
    ),
    (
        "[rank{rank}]:[E1121 12:40:{s:02d}.{us:06d}000 ProcessGroupNCCL.cpp:732] Stack trace of the failed collective not "
        "found, potentially because FlightRecorder is disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE "
        "to a non-zero value."
    ),
    (
        "[rank{rank}]:[E1121 12:40:{s:02d}.{us:06d}000 ProcessGroupNCCL.cpp:2106] [PG ID 0 PG GUID 0(default_pg) Rank "
        "{rank}] Process group watchdog thread terminated with exception: [Rank {rank}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=88172, OpType=ALLREDUCE, NumelIn=67108864, NumelOut=67108864, "
        "Timeout(ms)=600000) ran for 6000{s:02d} milliseconds before timing out."
    ),
    (
        "Exception raised from checkTimeout at /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:688 (most recent "
        "call first):"
    ),
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x80 (0x7f4a5c785eb0 in /opt/venv/lib/libc10.so)",
    "frame #1: c10d::ProcessGroupNCCL::Watchdog::runLoop() + 0x978 (0x7f4a00c1e2a8 in /opt/venv/lib/libtorch_cuda.so)",
    "frame #2: <unknown function> + 0xdc253 (0x7f4a5c4b0253 in /lib/x86_64-linux-gnu/libstdc++.so.6)",
    "",
    "terminate called after throwing an instance of 'c10::DistBackendError'",
)
WHOLE_JOB = ((0.15, "start"), (0.80, "steps"), (0.05, "end"))
ONLY_INFO = ((1.0, "start"),)
"""Nothing but what NCCL_DEBUG=INFO prints at the start: nearly every line says something."""


def write_merged_log(
    path: Path,
    size: int,
    *,
    ranks: int = 1024,
    seed: int = 7,
    shares: Sequence[tuple[float, str]] = WHOLE_JOB,
) -> None:
    """Write about ``size`` bytes to ``path``; the same arguments give the same bytes. The last rank stays silent."""
    chance = random.Random(seed)
    kinds = {"start": _start, "steps": _steps, "end": _end}
    with path.open("wb") as out:
        for share, kind in shares:
            left = int(size * share)
            for lines in kinds[kind](ranks, chance):
                block = ("\n".join(lines) + "\n").encode("ascii")
                out.write(block)
                left -= len(block)
                if left <= 0:
                    break


def _start(ranks: int, chance: random.Random) -> Iterator[list[str]]:
    while True:
        for rank in range(ranks):
            node, device = divmod(rank, 8)
            a, b = (rank - 1) % ranks, (rank + 1) % ranks
            head = f"gpu-{node:03d}:{4000 + rank}:{9000 + rank} [{device}] "
            yield [
                head
                + line.format(
                    node=node, rank=rank, ranks=ranks, device=device, a=a, b=b,
                    near=rank ^ 1,
                    dn=device ^ 1, da=a % 8, db=b % 8,
                    channel=chance.randrange(32), net=chance.randrange(8),
                )
                for line in _INFO
            ]  # fmt: skip


def _steps(ranks: int, chance: random.Random) -> Iterator[list[str]]:
    step = 0
    while True:
        step += 1
        clock = f"2026-11-21 {8 + step // 3600 % 16:02d}:{step // 60 % 60:02d}:{step % 60:02d}"
        for first in range(0, ranks, 64):
            lines = [
                f"[rank{rank}]: {clock},{chance.randrange(1000):03d} INFO train.loop step {step:6d}/100000 | loss "
                f"{chance.random() * 4:.4f} | grad norm {chance.random():.3f} | lr 3.0e-04 | 2.31 s/it | tokens "
                f"{step * 4194304:,}"
                for rank in range(first, min(first + 64, ranks - 1))
            ]
            _add_rarer_lines(lines, first, clock, chance)
            yield lines


def _add_rarer_lines(lines: list[str], rank: int, clock: str, chance: random.Random) -> None:
    if chance.random() < 0.3:
        lines.append(f"[rank{rank}]: {chance.choice(_WARNINGS)}")
    if chance.random() < 0.1:
        done = chance.randrange(99)
        bar = f"{'#' * (done // 10):<10}"
        lines.append(f"Loading shards: {done:3d}%|{bar}| {done}/100 [00:{done % 60:02d}<00:41, 1.31it/s]")
    if chance.random() < 0.05:
        shard = chance.randrange(99_999)
        lines.extend(f"[rank{rank}]: {line.format(shard=shard, clock=clock)}" for line in _HANDLED)
    if chance.random() < 0.05:
        lines.append(f"[rank{rank}]: {clock},000 INFO train.save checkpoint of rank {rank} written in 41.2 s")


def _end(ranks: int, chance: random.Random) -> Iterator[list[str]]:
    while True:
        for rank in range(ranks - 1):
            yield [line.format(rank=rank, s=chance.randrange(60), us=chance.randrange(999_999)) for line in _END]
