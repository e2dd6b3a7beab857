"""What the first dump of a process costs a job that only seems slow: its time, its longest pause, memory, modules.

    python -m benchmarks first-dump [--rounds N]

Two ranks over Gloo that have done 2,000 collectives; then rank 1 waits in one while rank 0 works in Python, as in a job
that is slow and not stuck. Meanwhile nothing is asked, nothing once more (A/A), or our thread in rank 0 is asked for a
dump, without stacks or with them. Every kind in new processes, in random order. The longest pause is the longest time
between two pieces of the work, some 0.1 ms each: so long another thread held the interpreter lock.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.inprocess import Job
from unhang.watch.dump_requests import ask_dumps, open_control
from unhang.wire.record import read_records

KINDS = ("nothing", "nothing again", "without stacks", "with stacks")
ASKED_AFTER_S, LIMIT_S = 0.5, 60.0

RANK = """
import sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
small = torch.ones(8)
for _ in range(2000): dist.all_reduce(small)
def resident(): return int(open("/proc/self/statm").read().split()[1]) * 4096
def pieces(count):
    longest, last = 0.0, time.perf_counter()
    for _ in range(count):
        sum(range(4000))
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest
pieces(2000)
for line in sys.stdin:
    if dist.get_rank() == 0:
        memory, modules, began = resident(), len(sys.modules), time.perf_counter()
        longest = pieces(100000)
        print(time.perf_counter() - began, longest, resident() - memory, len(sys.modules) - modules, flush=True)
    dist.all_reduce(small)
    print("done", flush=True)
"""


def measure(script: Path, kind: str) -> list[float]:
    """Seconds of the work, of its longest pause, MiB and modules more after it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        control = open_control(folder)
        job = Job(script, folder, TORCH_FR_BUFFER_SIZE="2000")
        try:
            for rank in job.ranks:
                assert rank.stdin is not None
                rank.stdin.write("work\n")
                rank.stdin.flush()
            first, second = (rank.stdout for rank in job.ranks)
            assert first is not None
            assert second is not None
            if kind in KINDS[2:]:
                _wait_until(lambda: _is_armed(folder))
                time.sleep(ASKED_AFTER_S)
                ask_dumps(folder, with_stacks=kind == "with stacks")
            took_s, pause_s, memory, modules = map(float, first.readline().split())
            if kind in KINDS[2:]:
                _wait_until((folder / "dumps" / "rank_0").exists)
            return [took_s, 1000 * pause_s, memory / (1 << 20), modules]
        finally:
            job.end()
            if control is not None:
                control.close()


def _is_armed(folder: Path) -> bool:
    return any(group.completed >= 1999 for view in read_records(folder).values() for group in view.groups)


def _wait_until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not there():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing came within {LIMIT_S:.0f} s")
        time.sleep(0.05)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rounds", type=int, default=8)
    rounds = words.parse_args(arguments).rounds
    found: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as name:
        script = Path(name) / "rank.py"
        script.write_text(RANK)
        for _ in range(rounds):
            for kind in random.sample(KINDS, len(KINDS)):
                found[kind].append(measure(script, kind))
    print("| asked for | work takes | longest pause | worst | memory | modules |\n|---|---:|---:|---:|---:|---:|")
    for kind, rows in found.items():
        took, pause, memory, modules = (statistics.median(column) for column in zip(*rows, strict=True))
        worst = max(row[1] for row in rows)
        print(f"| {kind} | {took:.2f} s | {pause:.0f} ms | {worst:.0f} ms | {memory:.1f} MiB | {modules:.0f} |")
    return 0
