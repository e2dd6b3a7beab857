"""What being recorded costs a job: CPU time of our thread, its longest pause, and paired wall-clock ratios.

    python benchmarks/inprocess.py                      200 pairs of each loop, about 20 minutes on 2 cores
    python benchmarks/inprocess.py --pairs 10 --watch-s 5   a first look

Jobs of two ranks stand side by side: without us, without us once more (the A/A pair, which shows what this machine
itself scatters), and with us; all but one are stopped (SIGSTOP). In every round each does the same block of work, in
random order. Ratio: block time with us over block time without, of the same round. A job with
``TORCH_DISTRIBUTED_DEBUG=DETAIL`` does a tenth of the blocks of the first loop, for comparison (with it and Gloo, torch
2.13 does not get through the construction of DistributedDataParallel).
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import unhang
from unhang.records.control import Control
from unhang.records.record import read_records

STARTUP = Path(unhang.__file__).parent / "inprocess" / "startup"
WARM_BLOCKS = 3

RANK = """
import sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
small = torch.ones(1000)
model = optimizer = None
def all_reduce(_):
    dist.all_reduce(small)
def ddp(batch):
    global model, optimizer
    if model is None:
        model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4))))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    optimizer.zero_grad(); model(batch).square().mean().backward(); optimizer.step()
loops = {"all_reduce": all_reduce, "ddp": ddp}
for line in sys.stdin:
    name, count, rows = line.split()
    run, batch = loops[name], torch.randn(int(rows), 256)
    dist.barrier()
    for _ in range(max(int(count) // 20, 2)): run(batch)
    began = time.perf_counter()
    for _ in range(int(count)): run(batch)
    dist.barrier()
    print(time.perf_counter() - began, flush=True)
"""


class Job:
    """Two ranks that do blocks of work when told, and are stopped in between."""

    def __init__(self, script: Path, folder: Path | None = None, **more: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UNHANG")}
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _free_port(), "OMP_NUM_THREADS": "1", **more}
        environment |= {"TORCH_CPP_LOG_LEVEL": "ERROR"}
        if folder is not None:
            environment |= {"PYTHONPATH": str(STARTUP), "UNHANG_RUN": str(folder), "UNHANG_RUN_DIR": str(folder)}
        self.ranks = [
            subprocess.Popen(
                [sys.executable, str(script)],
                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in (0, 1)
        ]

    def block(self, loop: str, count: int, rows: int) -> float:
        """Seconds one block took."""
        self._signal(signal.SIGCONT)
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.write(f"{loop} {count} {rows}\n")
            rank.stdin.flush()
        took_s = 0.0
        for rank in self.ranks:
            assert rank.stdout is not None
            took_s = max(took_s, float(rank.stdout.readline()))
        self._signal(signal.SIGSTOP)
        return took_s

    def _signal(self, number: int) -> None:
        for rank in self.ranks:
            rank.send_signal(number)

    def end(self) -> None:
        """End both ranks."""
        for rank in self.ranks:
            rank.kill()
            rank.communicate()


def _free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def _interval(ratios: list[float]) -> str:
    """The geometric mean of ratios, and its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    half = 1.96 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    low, high = math.exp(mean - half), math.exp(mean + half)
    return f"{math.exp(mean):.4f}  [{low:.4f}, {high:.4f}]  median {statistics.median(ratios):.4f}  n={len(ratios)}"


def _fit(job: Job, loop: str, block_s: float) -> tuple[int, int]:
    """How many rounds make a block of ``block_s``, and (ddp) how many rows make a step of 25 ms."""
    rows = 16
    if loop == "ddp":
        while job.block(loop, 20, rows) / 20 < 0.025 and rows < 65536:
            rows = int(rows * 1.3) + 1
    per_round_s = job.block(loop, 40, rows) / 40
    return max(int(block_s / per_round_s), 5), rows


def _measure(jobs: dict[str, Job], loop: str, pairs: int, block_s: float) -> None:
    count, rows = _fit(jobs["without"], loop, block_s)
    names = ["without", "without again", "with us"]
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for round_ in range(WARM_BLOCKS + pairs):
        turn = [*names, "DETAIL"] if round_ % 10 == 0 and loop == "all_reduce" else list(names)
        random.shuffle(turn)
        for name in turn:
            took_s = jobs[name].block(loop, count, rows)
            if round_ >= WARM_BLOCKS:
                times[name].append(took_s)
    without = times["without"]
    print(f"\n{loop}: blocks of {count} rounds, {1e3 * statistics.median(without) / count:.3f} ms each")
    for name in names[1:]:
        ratios = [took_s / base_s for took_s, base_s in zip(times[name], without, strict=True)]
        print(f"  {name:14} / without   {_interval(ratios)}")
    if times["DETAIL"]:
        base_s = statistics.median(without)
        print(f"  {'DETAIL':14} / without   {_interval([took_s / base_s for took_s in times['DETAIL']])}")


def _watch(job: Job, folder: Path, loop: str, seconds: float) -> None:
    """CPU time and pauses of our thread while the job works without a break."""
    count, rows = _fit(job, loop, max(seconds, 1.0))
    before = read_records(folder)
    job.block(loop, count, rows)
    for path, view in sorted(read_records(folder).items()):
        beats = view.beats - before[path].beats
        share = (view.beat_cost_ns - before[path].beat_cost_ns) / max(view.beat_ns - before[path].beat_ns, 1)
        print(
            f"  {loop} rank {view.identity.rank}: {beats} beats, CPU time {100 * share:.3f} % of wall; longest beat so "
            f"far {view.longest_beat_ns / 1e6:.3f} ms of CPU, {view.longest_pause_ns / 1e6:.3f} ms of wall"
        )


def _start_up(runs: int) -> None:
    def once(**more: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], env={"PATH": os.environ["PATH"], **more}, check=True)
        return 1e3 * (time.perf_counter() - began)

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "births").mkdir()
        ours = {"PYTHONPATH": str(STARTUP), "UNHANG_RUN": folder, "RANK": "0"}
        pairs = [(once(), once(**ours)) for _ in range(runs)]
    without, with_us = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"start of Python: {without:.2f} ms without us, {with_us:.2f} ms with us (median of {runs})")


def main() -> None:
    """Measure and print."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--pairs", type=int, default=200, help="rounds of each loop")
    words.add_argument("--block-s", type=float, default=0.5, help="seconds of one block")
    words.add_argument("--watch-s", type=float, default=30.0, help="seconds to watch our thread in each loop")
    options = words.parse_args()
    _start_up(20)
    with contextlib.ExitStack() as at_end:
        folder = Path(at_end.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))  # local, as `unhang run` does
        (folder / "births").mkdir()
        Control.create(folder)
        script = folder / "rank.py"
        script.write_text(RANK)
        jobs = {
            "without": Job(script),
            "without again": Job(script),
            "with us": Job(script, folder),
            "DETAIL": Job(script, TORCH_DISTRIBUTED_DEBUG="DETAIL"),
        }
        for job in jobs.values():
            at_end.callback(job.end)
        for job in jobs.values():
            job.block("all_reduce", 10, 16)
        print("our thread, working without a break:")
        for loop in ("all_reduce", "ddp"):
            _watch(jobs["with us"], folder, loop, options.watch_s)
        for loop in ("all_reduce", "ddp"):
            _measure(jobs, loop, options.pairs, options.block_s)


if __name__ == "__main__":
    main()
