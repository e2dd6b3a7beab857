"""What the guards cost: each alone, and all together, in a loop of 10 ms a step over real ranks.

    python -m benchmarks guards --keep FILE       20 rounds, about 14 minutes on 2 quiet cores
    python -m benchmarks guards --rounds 6        a first look

One job of two ranks (Gloo, DistributedDataParallel). In every round it does each loop once, in random order: the bare
loop, the bare loop once more (the A/A pair: what this machine itself scatters), the loop with one guard, the loop with
all of them, and the loop with what torch itself has for the same end. A loop is an epoch of ``--steps`` steps; a guard
of a step is called in every step, the others as often as one would: once an epoch, or every 50 steps. What
``BackgroundWriter`` writes goes nowhere in these loops; around a ``SummaryWriter`` it stands apart, beside a plain one.
Ratio: median of the epochs over the median of the bare ones, of the same rounds; the interval holds 95 % of 4,000 such
ratios of rounds drawn with replacement. Processor time is that of all threads of a rank, and says more on a machine
that does other work too. The second table times single calls, beside the collective that one would take instead.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.inprocess import Job, Kept, ratio

GOAL = 1.005
"""All guards together: half a percent of a step of 10 ms."""
STEP_S = 0.010
LOOPS = (
    "bare",
    "bare again",
    "step",
    "phase",
    "even_batches",
    "BackgroundWriter",
    "together",
    "same_on_all_ranks",
    "rank_zero_first",
    "all guards",
    "BackgroundWriter of SummaryWriter",
    "torch: SummaryWriter",
    "torch: Join",
)
CALLS = {
    "step": "",
    "phase": "",
    "BackgroundWriter.add_scalar": "SummaryWriter.add_scalar",
    "together": "dist.barrier",
    "rank_zero_first": "dist.monitored_barrier",
    "seed_everything": "torch.manual_seed",
    "same_on_all_ranks": "dist.all_gather_object",
}
"""A call, and what one would take instead."""

RANK = """
import sys, tempfile, time
import torch, torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
import unhang
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(64, 64))
plain = SummaryWriter(tempfile.mkdtemp())
later = unhang.BackgroundWriter(SummaryWriter(tempfile.mkdtemp()))
class Nowhere:
    def add_scalar(self, tag, value, step): pass
unwritten = unhang.BackgroundWriter(Nowhere())
config = {"lr": 1e-3, "layers": [64] * 24, "name": "benchmark", "seed": 3}
square = torch.randn(128, 128)
def work(load):
    for _ in range(load): torch.mm(square, square)
def one(batch, load):
    work(load)
    loss = model(batch).square().mean()
    loss.backward()
    return loss
def nothing(): pass
def log(writer):
    def write(step, loss):
        writer.add_scalar("loss", loss, step)
        writer.add_scalar("lr", 1e-3, step)
    return write
def marked(step, loss):
    with unhang.phase("training"): pass
def every(call):
    def at(step, loss):
        if step % 50 == 49: call()
    return at
def first():
    with unhang.rank_zero_first("cache"): pass
def meet(): unhang.together("save")
def same(): unhang.same_on_all_ranks(config, "config")
def all_steps(step, loss):
    unhang.step()
    log(unwritten)(step, loss)
    if step % 50 == 49:
        with unhang.phase("evaluation", at_most_s=60): unhang.together("save")
def begin():
    unhang.seed_everything(3)
    same()
    first()
STEPS = {"step": lambda step, loss: unhang.step(), "phase": marked, "BackgroundWriter": log(unwritten),
    "BackgroundWriter of SummaryWriter": log(later),
    "torch: SummaryWriter": log(plain), "together": every(meet), "all guards": all_steps}
BEGINS = {"same_on_all_ranks": same, "rank_zero_first": first, "all guards": begin}
def epoch(name, count, load):
    loader = DataLoader(torch.randn(count * 8, 64), batch_size=8)
    if name in ("even_batches", "all guards"): loader = unhang.even_batches(loader)
    each = STEPS.get(name)
    for _ in range(3): one(torch.randn(8, 64), load)
    dist.barrier()
    began, used = time.perf_counter(), time.process_time()
    BEGINS.get(name, nothing)()
    with Join([model]) if name == "torch: Join" else unhang.phase("epoch") if name == "all guards" else plain_block:
        for step, batch in enumerate(loader):
            loss = one(batch, load)
            if each is not None: each(step, loss)
    dist.barrier()
    took = time.perf_counter() - began
    later.drain(), unwritten.drain()
    cpu[0] = time.process_time() - used
    return took
import contextlib
cpu = [0.0]
plain_block = contextlib.nullcontext()
CALLS = {"step": unhang.step, "phase": lambda: marked(0, 0), "together": meet, "same_on_all_ranks": same,
    "seed_everything": lambda: unhang.seed_everything(3), "torch.manual_seed": lambda: torch.manual_seed(3),
    "rank_zero_first": first, "dist.barrier": dist.barrier,
    "dist.monitored_barrier": dist.monitored_barrier,
    "dist.all_gather_object": lambda: dist.all_gather_object([None, None], config),
    "BackgroundWriter.add_scalar": lambda: later.add_scalar("loss", 1.5, 1),
    "SummaryWriter.add_scalar": lambda: plain.add_scalar("loss", 1.5, 1)}
def call(name, count):
    run = CALLS[name]
    for _ in range(3): run()
    dist.barrier()
    began = time.perf_counter()
    for _ in range(count): run()
    took = time.perf_counter() - began
    dist.barrier()
    later.drain()
    return took
for line in sys.stdin:
    name, count, load = line.rstrip().rsplit(" ", 2)
    if name == "cpu": took = cpu[0]
    elif name.startswith("call "): took = call(name[5:], int(count))
    else: took = epoch(name, int(count), int(load))
    print(took, flush=True)
"""


def _load(job: Job) -> int:
    """How many products make a bare step of 10 ms."""
    load = 20
    for _ in range(6):
        each_s = job.block("bare", 40, load) / 40
        load = max(1, round(load * STEP_S / each_s))
    return load


def _run(options: argparse.Namespace, kept: Kept) -> None:
    with contextlib.ExitStack() as at_end:
        folder = Path(at_end.enter_context(tempfile.TemporaryDirectory()))
        script = folder / "rank.py"
        script.write_text(RANK)
        job = Job(script, GLOO_SOCKET_IFNAME="lo", TMPDIR=str(folder))
        at_end.callback(job.end)
        if "epoch" not in kept.fits:
            kept.add({"loop": "epoch", "fit": [options.steps, _load(job)]})
        count, load = kept.fits["epoch"]
        done = kept.rounds.setdefault("epoch", [])
        job.block("all guards", count, load)
        while len(done) < options.rounds:
            turn = random.sample(LOOPS, len(LOOPS))
            times = {name: (job.block(name, count, load), job.block("cpu", 0, 0)) for name in turn}
            kept.add({"loop": "epoch", "times": {name: wall for name, (wall, _) in times.items()}})
            kept.add({"loop": "cpu", "times": {name: used for name, (_, used) in times.items()}})
            print(f"{len(done)} of {options.rounds} rounds", file=sys.stderr, flush=True)
        calls = kept.rounds.setdefault("calls", [])
        names = [name for pair in CALLS.items() for name in pair if name]
        while len(calls) < options.rounds:
            turn = random.sample(names, len(names))
            each = {name: job.block(f"call {name}", options.calls, 0) / options.calls for name in turn}
            kept.add({"loop": "calls", "times": each})


def _table(kept: Kept) -> str:
    rounds, calls = kept.rounds.get("epoch", []), kept.rounds.get("calls", [])
    lines = []
    if len(rounds) > 1:
        bare = [times["bare"] for times in rounds]
        steps = kept.fits["epoch"][0]
        lines += [
            f"{len(rounds)} rounds of {steps} steps; a bare step takes {1e3 * statistics.median(bare) / steps:.2f} ms."
        ]
        lines += ["", "| loop | time, ratio to the bare one | 95 % interval | processor time, ratio | 95 % interval |"]
        lines += ["|---|---|---|---|---|"]
        for name in LOOPS[1:]:
            middle, low, high = ratio([times[name] for times in rounds], bare)
            over = " over the goal" if name == "all guards" and middle > GOAL else ""
            used = [(times[name], times["bare"]) for times in kept.rounds["cpu"]]
            cpu = "{:.4f} | {:.4f} to {:.4f}".format(*ratio([a for a, _ in used], [b for _, b in used]))
            lines.append(f"| {name} | {middle:.4f}{over} | {low:.4f} to {high:.4f} | {cpu} |")
    if calls:
        lines += ["", "| call | takes | instead of | takes |", "|---|---|---|---|"]
        for name, instead in CALLS.items():
            other = f"{instead} | {_told(calls, instead)}" if instead else "|"
            lines.append(f"| {name} | {_told(calls, name)} | {other} |")
    return "\n".join(lines)


def _told(calls: Sequence[dict[str, float]], name: str) -> str:
    """Median, in the unit that reads best."""
    seconds = statistics.median(times[name] for times in calls)
    return f"{1e6 * seconds:.1f} µs" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 130 when it was interrupted."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rounds", type=int, default=20, help="how often each loop is done")
    words.add_argument("--steps", type=int, default=300, help="steps of one epoch")
    words.add_argument("--calls", type=int, default=100, help="single calls that are timed together")
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
