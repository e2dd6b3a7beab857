"""What being recorded costs a job: CPU time of our thread, its longest pause, and paired wall-clock ratios.

    python -m benchmarks inprocess --keep FILE              200 pairs of each loop, about 15 minutes on 2 quiet cores
    python -m benchmarks inprocess --pairs 10 --watch-s 5   a first look
    python -m benchmarks inprocess --beside CHECKOUT        and with the unhang of another checkout, in the same rounds

Jobs of two ranks stand side by side: without us, without us once more (the A/A pair, which shows what this machine
itself scatters), and with us; all but one are stopped (SIGSTOP). In every round each does the same block of work, in
random order. Ratio: median of the block times with us over the median of those without, of the same rounds; the
interval holds 95 % of 4,000 such ratios of rounds drawn with replacement (the rounds stay whole). A job with
``TORCH_DISTRIBUTED_DEBUG=DETAIL`` takes part in every tenth round of the first loop, for comparison.

Ctrl-C ends it with the table of what there is; with ``--keep FILE`` the same command goes on from there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import unhang
from unhang.wire.control import Control
from unhang.wire.record import read_records

STARTUP = Path(unhang.__file__).parent / "inprocess" / "startup"
WARM_BLOCKS = 3
DRAWS = 4000
BLOCK_LIMIT_S = 120.0
DDP_LIMIT_S = 30.0
CPU_SHARE, PAUSE_MS = 0.2, 1.0
"""What was promised: percent of wall time, and the longest pause."""
NAMES = ("without", "without again", "with us")
DETAIL = "DETAIL"
OTHER = "with us, the other checkout"

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

    def __init__(self, script: Path, folder: Path | None = None, startup: Path = STARTUP, **more: str) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UNHANG")}
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _free_port(), "OMP_NUM_THREADS": "1", **more}
        environment |= {"TORCH_CPP_LOG_LEVEL": "ERROR"}
        if folder is not None:
            environment |= {"PYTHONPATH": str(startup), "UNHANG_RUN": str(folder), "UNHANG_RUN_DIR": str(folder)}
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

    def block(self, loop: str, count: int, rows: int, limit_s: float = BLOCK_LIMIT_S) -> float:
        """Seconds one block took.

        Raises:
            TimeoutError: it did not come back.
            EOFError: a rank ended in it.
        """
        self._signal(signal.SIGCONT)
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.write(f"{loop} {count} {rows}\n")
            rank.stdin.flush()
        took_s = 0.0
        for rank in self.ranks:
            assert rank.stdout is not None
            if not select.select([rank.stdout], [], [], limit_s)[0]:
                raise TimeoutError(f"{loop} did not come back in {limit_s:g} s")
            answer = rank.stdout.readline()
            if not answer:
                raise EOFError(f"a rank ended in {loop}, exit code {rank.wait(limit_s)}")
            took_s = max(took_s, float(answer))
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


def ratio(of: Sequence[float], base: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """Median of ``of`` over median of ``base`` (seconds, one pair a round), and the bounds of its 95 % interval."""
    pairs = np.array([of, base])
    drawn = np.random.default_rng(seed).integers(0, pairs.shape[1], (DRAWS, pairs.shape[1]))
    medians = np.median(pairs[:, drawn], axis=2)
    low, high = np.percentile(medians[0] / medians[1], [2.5, 97.5])
    middle = np.median(pairs, axis=1)
    return float(middle[0] / middle[1]), float(low), float(high)


@dataclass
class Kept:
    """What was measured so far, in a file of one JSON object a line. ``rounds``: by loop, block times by job."""

    path: Path | None
    fits: dict[str, tuple[int, int]] = field(default_factory=dict)
    rounds: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            for line in self.path.read_text().splitlines():
                self._take(json.loads(line))

    def add(self, row: dict[str, Any]) -> None:
        """Take ``row`` in, and keep it."""
        self._take(row)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def _take(self, row: dict[str, Any]) -> None:
        if "fit" in row:
            self.fits[row["loop"]] = (row["fit"][0], row["fit"][1])
        elif "times" in row:
            self.rounds.setdefault(row["loop"], []).append(row["times"])
        else:
            self.notes.update(row)


def _fit(job: Job, loop: str, block_s: float) -> tuple[int, int]:
    """How many rounds make a block of ``block_s``, and (ddp) how many rows make a step of 25 ms."""
    rows = 16
    if loop == "ddp":
        while job.block(loop, 20, rows) / 20 < 0.025 and rows < 65536:
            rows = int(rows * 1.3) + 1
    per_round_s = job.block(loop, 40, rows) / 40
    return max(int(block_s / per_round_s), 5), rows


def _measure(jobs: dict[str, Job], loop: str, pairs: int, block_s: float, kept: Kept) -> None:
    if loop not in kept.fits:
        kept.add({"loop": loop, "fit": _fit(jobs["without"], loop, block_s)})
    count, rows = kept.fits[loop]
    done = kept.rounds.setdefault(loop, [])
    for round_ in range(-WARM_BLOCKS, pairs - len(done)):
        turn = [name for name in jobs if name != DETAIL or (loop == "all_reduce" and len(done) % 10 == 0)]
        random.shuffle(turn)
        times = {name: jobs[name].block(loop, count, rows) for name in turn}
        if round_ >= 0:
            kept.add({"loop": loop, "times": times})
            if len(done) % 25 == 0:
                print(f"{loop}: {len(done)} of {pairs} rounds", file=sys.stderr, flush=True)


def _table(kept: Kept) -> str:
    lines = ["| loop | job | rounds | ratio to without us | 95 % interval |", "|---|---|---|---|---|"]
    for loop, rounds in kept.rounds.items():
        for name in (*NAMES[1:], OTHER, DETAIL):
            both = [times for times in rounds if name in times]
            if len(both) > 1:
                middle, low, high = ratio([t[name] for t in both], [t["without"] for t in both])
                lines.append(f"| {loop} | {name} | {len(both)} | {middle:.4f} | {low:.4f} to {high:.4f} |")
        if rounds:
            each_ms = 1e3 * statistics.median(times["without"] for times in rounds) / kept.fits[loop][0]
            lines.append(f"| {loop} | without | {len(rounds)} | 1 | {each_ms:.3f} ms a round |")
    lines.append(f"| ddp | {DETAIL} | | {kept.notes.get('detail_ddp', 'not tried')} | |")
    lines += ["", "| our thread, in | rank | beats | CPU time of wall | longest beat, CPU | longest beat, wall |"]
    lines += ["|---|---|---|---|---|---|"]
    for loop in kept.rounds | dict.fromkeys(key.split()[1] for key in kept.notes if key.startswith("watch ")):
        for row in kept.notes.get(f"watch {loop}", []):
            held = row["share"] <= CPU_SHARE and row["cpu_ms"] <= PAUSE_MS
            lines.append(
                f"| {loop} | {row['rank']} | {row['beats']} | {row['share']:.3f} % | {row['cpu_ms']:.3f} ms | "
                f"{row['wall_ms']:.3f} ms |" + ("" if held else f" over {CPU_SHARE} % or {PAUSE_MS} ms")
            )
    if "start_ms" in kept.notes:
        without, with_us = kept.notes["start_ms"]
        lines += ["", f"Start of Python: {without:.2f} ms without us, {with_us:.2f} ms with us (medians)."]
    return "\n".join(lines)


def _watch(job: Job, folder: Path, loop: str, seconds: float) -> list[dict[str, float]]:
    """CPU time and pauses of our thread while the job works without a break."""
    count, rows = _fit(job, loop, max(seconds, 1.0))
    before = read_records(folder)
    job.block(loop, count, rows, BLOCK_LIMIT_S + 10 * seconds)
    found = []
    for path, view in sorted(read_records(folder).items()):
        share = (view.beat_cost_ns - before[path].beat_cost_ns) / max(view.beat_ns - before[path].beat_ns, 1)
        found.append(
            {
                "rank": view.identity.rank,
                "beats": view.beats - before[path].beats,
                "share": 100 * share,
                "cpu_ms": view.longest_beat_ns / 1e6,
                "wall_ms": view.longest_pause_ns / 1e6,
            }
        )
    return found


def _detail_ddp(job: Job) -> str:
    try:
        took_s = job.block("ddp", 5, 16, DDP_LIMIT_S)
    except TimeoutError:
        return f"hangs: the construction of DistributedDataParallel did not come back in {DDP_LIMIT_S:g} s"
    except EOFError as error:
        return f"fails: {error}"
    return f"goes: {took_s / 5 * 1e3:.1f} ms a round of 16 rows"


def _start_up(runs: int) -> list[float]:
    def once(**more: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], env={"PATH": os.environ["PATH"], **more}, check=True)
        return 1e3 * (time.perf_counter() - began)

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "births").mkdir()
        ours = {"PYTHONPATH": str(STARTUP), "UNHANG_RUN": folder, "RANK": "0"}
        pairs = [(once(), once(**ours)) for _ in range(runs)]
    return [statistics.median(column) for column in zip(*pairs, strict=True)]


def _run_folder(at_end: contextlib.ExitStack) -> Path:
    folder = Path(at_end.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))  # local, as `unhang run` does
    (folder / "births").mkdir()
    Control.create(folder)
    return folder


def _run(options: argparse.Namespace, kept: Kept) -> None:
    if "start_ms" not in kept.notes:
        kept.add({"start_ms": _start_up(20)})
    with contextlib.ExitStack() as at_end:
        folder = _run_folder(at_end)
        script = folder / "rank.py"
        script.write_text(RANK)
        jobs = {
            "without": Job(script),
            "without again": Job(script),
            "with us": Job(script, folder),
            DETAIL: Job(script, TORCH_DISTRIBUTED_DEBUG="DETAIL"),
        }
        if options.beside is not None:
            startup = options.beside / STARTUP.relative_to(Path(unhang.__file__).parents[2])
            jobs[OTHER] = Job(script, _run_folder(at_end), startup)
        for job in jobs.values():
            at_end.callback(job.end)
        for job in jobs.values():
            job.block("all_reduce", 10, 16)
        for loop in ("all_reduce", "ddp"):
            if f"watch {loop}" not in kept.notes:
                kept.add({f"watch {loop}": _watch(jobs["with us"], folder, loop, options.watch_s)})
        for loop in ("all_reduce", "ddp"):
            _measure(jobs, loop, options.pairs, options.block_s, kept)
        if "detail_ddp" not in kept.notes:
            kept.add({"detail_ddp": _detail_ddp(jobs[DETAIL])})


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 130 when it was interrupted."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--pairs", type=int, default=200, help="rounds of each loop")
    words.add_argument("--block-s", type=float, default=0.5, help="seconds of one block")
    words.add_argument("--watch-s", type=float, default=30.0, help="seconds to watch our thread in each loop")
    words.add_argument("--beside", type=Path, help="another checkout of unhang, measured in the same rounds")
    words.add_argument("--keep", type=Path, help="keep every round in this file, and go on where it ends")
    options = words.parse_args(given)
    kept, began, code = Kept(options.keep), time.monotonic(), 0
    try:
        _run(options, kept)
    except KeyboardInterrupt:
        code = 130
    print(_table(kept))
    print(f"\nTaken in {time.monotonic() - began:.0f} s; load {', '.join(f'{x:.1f}' for x in os.getloadavg())}.")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
