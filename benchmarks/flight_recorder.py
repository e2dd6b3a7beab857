"""Measure reading the dumps of a stalled job: ours beside ``torchfrtrace`` and beside plain ``pickle.load``.

    python benchmarks/flight_recorder.py                      # 64, 256 and 1,024 ranks
    python benchmarks/flight_recorder.py --ranks 16384        # copies of --distinct different files
    python benchmarks/flight_recorder.py --ranks 256 --frames 8 --writers all   # whoever wrote them

Every rank has 2,000 entries of 10 frames; one rank is late. Each command runs in a fresh process, several times in
turns, in one session; the table gives the medians of wall time, of processor time and of peak memory (all processes of
the command together). ``pickle.load`` (for JSON ``json.load``) is the floor: it reads the same files and draws no
conclusion.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.dump_writers import WRITERS, write_again
from unhang_lab.dump_writer import StalledJob

PREFIX = "comm_lib_trace_rank_"
COPIED_FROM = 4096
"""From so many ranks on files are copies of a few hundred different ones, and torchfrtrace is left out."""

_FLOOR_ONE = """
import json, pickle, sys
from pathlib import Path
for path in Path(sys.argv[1]).iterdir():
    with path.open("rb") as file:
        pickle.load(file)
"""
_FLOOR_SPREAD = """
import json, os, pickle, sys
from multiprocessing import Pool
def load(path):
    with open(path, "rb") as file:
        pickle.load(file)
if __name__ == "__main__":
    folder = sys.argv[1]
    paths = [os.path.join(folder, name) for name in os.listdir(folder)]
    with Pool(len(os.sched_getaffinity(0))) as pool:
        for _ in pool.imap_unordered(load, paths, chunksize=16):
            pass
"""
_OURS = """
import sys
from pathlib import Path
from unhang.evidence.flight_recorder.many_dumps import read_recorder_dumps
items = list(read_recorder_dumps(sorted(Path(sys.argv[1]).iterdir())))
assert all(len(item.entries) for item in items)
"""


@dataclass(slots=True)
class Contestant:
    """One command; ``{dir}`` stands for the folder of dumps. ``good_codes`` are exit codes that count as success."""

    name: str
    command: Sequence[str]
    good_codes: tuple[int, ...] = (0,)
    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)
    mebibytes: list[float] = field(default_factory=list)
    failed: str = ""


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="unhang-bench-", dir=options.scratch) as scratch:
        for ranks, writer in itertools.product(options.ranks, options.writers):
            folder = Path(scratch) / f"{ranks}-ranks"
            job = StalledJob(ranks, entries=options.entries, frames=options.frames)
            _write(job, folder, options.distinct, writer)
            contestants = _contestants(options, ranks, writer)
            for _ in range(options.repeats):
                for contestant in contestants:
                    _measure(contestant, folder, options.limit)
            _print_table(job, writer, contestants)
            shutil.rmtree(folder)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--entries", type=int, default=2000, help="entries a rank")
    parser.add_argument("--frames", type=int, default=10, help="frames an entry")
    parser.add_argument(
        "--writers",
        nargs="+",
        default=["torch"],
        choices=[*WRITERS, "all"],
        help="who wrote the dumps (default: torch)",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--distinct", type=int, default=512, help="different files when most are copies")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a command is given up")
    parser.add_argument("--scratch", default=None, help="folder for the dumps (default: the system's)")
    parser.add_argument(
        "--diagnose", default=None, help="command to measure too, e.g. 'unhang diagnose {dir} --format json'"
    )
    parser.add_argument(
        "--only", nargs="+", default=None, help="names of contestants to run (a part of the name is enough)"
    )
    options = parser.parse_args()
    if "all" in options.writers:
        options.writers = list(WRITERS)
    return options


def _contestants(options: argparse.Namespace, ranks: int, writer: str) -> list[Contestant]:
    python = sys.executable
    contestants = []
    if importlib.util.find_spec("torch") and ranks < COPIED_FROM and writer != "json":
        command = [python, "-m", "torch.distributed.flight_recorder.fr_trace", "{dir}", "-p", PREFIX]
        contestants.append(Contestant("torchfrtrace", command))
    load = "json.load" if writer == "json" else "pickle.load"
    contestants += [
        Contestant(f"{load}, one process", [python, "-c", _FLOOR_ONE.replace("pickle.load", load), "{dir}"]),
        Contestant(f"{load}, every core", [python, "-c", _FLOOR_SPREAD.replace("pickle.load", load), "{dir}"]),
        Contestant("unhang, reading", [python, "-c", _OURS, "{dir}"]),
    ]
    if options.diagnose:
        contestants.append(Contestant("unhang diagnose", shlex.split(options.diagnose), good_codes=(0, 1)))
    if options.only:
        contestants = [one for one in contestants if any(word in one.name for word in options.only)]
    return contestants


def _write(job: StalledJob, folder: Path, distinct: int, writer: str) -> None:
    begun = time.monotonic()
    if writer == "torch":
        paths = job.write(folder, distinct=distinct if job.ranks >= COPIED_FROM else None, prefix=PREFIX)
        size = sum(path.stat().st_size for path in paths)
    else:
        size = write_again(job, folder, writer, PREFIX)
    took = time.monotonic() - begun
    print(f"wrote {job.ranks:,} dumps ({writer}), {size / 2**20:,.0f} MiB, in {took:.1f} s", file=sys.stderr)


def _measure(contestant: Contestant, folder: Path, limit: float) -> None:
    if contestant.failed:
        return
    command = [word.replace("{dir}", str(folder)) for word in contestant.command]
    begun, spent = time.monotonic(), _processor_seconds()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
        peak = _watch(process, begun + limit)
        took = time.monotonic() - begun
        said.seek(0)
        last = said.read()[-300:].decode("utf-8", "replace").strip()
    if peak is None:
        contestant.failed = f"given up after {limit:.0f} s"
    elif process.returncode not in contestant.good_codes:
        contestant.failed = f"exit code {process.returncode}: {' '.join(last.split())[-160:]}"
    else:
        contestant.seconds.append(took)
        contestant.processor_seconds.append(_processor_seconds() - spent)
        contestant.mebibytes.append(peak)


def _processor_seconds() -> float:
    """Of the commands that ended so far, with the processes they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watch(process: subprocess.Popen[bytes], deadline: float) -> float | None:
    """Peak of the memory of ``process`` and its descendants together, MiB; None when it was given up."""
    peak, begun = 0.0, time.monotonic()
    while process.poll() is None:
        peak = max(peak, _memory_of_session(process.pid))
        if time.monotonic() > deadline:
            os.killpg(process.pid, 9)
            process.wait()
            return None
        time.sleep(0.02 if time.monotonic() - begun < 10 else 0.2)  # looking costs the kernel time too
    return peak


def _memory_of_session(session: int) -> float:
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                total += _proportional(entry)
        except (OSError, IndexError, ValueError):
            continue
    return total / 1024


def _proportional(entry: Path) -> int:
    """KiB of one process; memory shared with forked siblings is counted by its share."""
    for line in (entry / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def _print_table(job: StalledJob, writer: str, contestants: list[Contestant]) -> None:
    ours = next((one for one in reversed(contestants) if one.seconds), None)
    print(f"\n### {job.ranks:,} ranks, {job.entries:,} entries of {job.frames} frames each, written by {writer}\n")
    print("| | time, s | processor time, s | peak memory, MiB | time, × the last row | processor | memory |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for one in contestants:
        if one.failed or not one.seconds or ours is None:
            print(f"| {one.name} | {one.failed or 'not run'} | | | | | |")
            continue
        (time_s, busy_s, memory), base = _medians(one), _medians(ours)
        ratios = " | ".join(f"{own / last:.2f}" for own, last in zip((time_s, busy_s, memory), base, strict=True))
        print(f"| {one.name} | {time_s:.2f} | {busy_s:.2f} | {memory:,.0f} | {ratios} |")
    print(flush=True)


def _medians(one: Contestant) -> tuple[float, float, float]:
    measured = (one.seconds, one.processor_seconds, one.mebibytes)
    time_s, busy_s, memory = (statistics.median(values) for values in measured)
    return time_s, busy_s, memory


if __name__ == "__main__":
    raise SystemExit(main())
