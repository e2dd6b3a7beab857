"""Measure reading the dumps of a stalled job: ours beside ``torchfrtrace`` and beside plain ``pickle.load``.

    python benchmarks/flight_recorder.py                      # 64, 256 and 1,024 ranks
    python benchmarks/flight_recorder.py --ranks 16384        # copies of --distinct different files

Every rank has 2,000 entries of 10 frames; one rank is late. Each command runs in a fresh process, several times in
turns, in one session; the table gives the medians of wall time and of peak memory (all processes of the command
together). ``pickle.load`` is the floor: it reads the same files and draws no conclusion.
"""

from __future__ import annotations

import argparse
import os
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

PREFIX = "comm_lib_trace_rank_"
COPIED_FROM = 4096
"""From so many ranks on files are copies of a few hundred different ones, and torchfrtrace is left out."""

_FLOOR_ONE = """
import pickle, sys
from pathlib import Path
for path in Path(sys.argv[1]).iterdir():
    with path.open("rb") as file:
        pickle.load(file)
"""
_FLOOR_SPREAD = """
import os, pickle, sys
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
from unhang.evidence.flight_recorder.many import read_recordings
items = list(read_recordings(sorted(Path(sys.argv[1]).iterdir())))
assert all(len(item.entries) for item in items)
"""


@dataclass(slots=True)
class Contestant:
    """One command; ``{dir}`` stands for the folder of dumps. ``good_codes`` are exit codes that count as success."""

    name: str
    command: Sequence[str]
    good_codes: tuple[int, ...] = (0,)
    seconds: list[float] = field(default_factory=list)
    mebibytes: list[float] = field(default_factory=list)
    failed: str = ""


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="unhang-bench-", dir=options.scratch) as scratch:
        for ranks in options.ranks:
            folder = Path(scratch) / f"{ranks}-ranks"
            _write(folder, ranks, options.distinct)
            contestants = _contestants(options, ranks)
            for _ in range(options.repeats):
                for contestant in contestants:
                    _measure(contestant, folder, options.limit)
            _print_table(ranks, contestants)
            shutil.rmtree(folder)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024])
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
    return parser.parse_args()


def _contestants(options: argparse.Namespace, ranks: int) -> list[Contestant]:
    python = sys.executable
    beside = Path(python).parent / "torchfrtrace"
    found = str(beside) if beside.exists() else shutil.which("torchfrtrace")
    contestants = []
    if found and ranks < COPIED_FROM:
        contestants.append(Contestant("torchfrtrace", [found, "{dir}", "-p", PREFIX]))
    contestants += [
        Contestant("pickle.load, one process", [python, "-c", _FLOOR_ONE, "{dir}"]),
        Contestant("pickle.load, every core", [python, "-c", _FLOOR_SPREAD, "{dir}"]),
        Contestant("unhang, reading", [python, "-c", _OURS, "{dir}"]),
    ]
    if options.diagnose:
        contestants.append(Contestant("unhang diagnose", shlex.split(options.diagnose), good_codes=(0, 1)))
    if options.only:
        contestants = [one for one in contestants if any(word in one.name for word in options.only)]
    return contestants


def _write(folder: Path, ranks: int, distinct: int) -> None:
    from unhang.lab.dump_writer import StalledJob

    begun = time.monotonic()
    paths = StalledJob(ranks).write(folder, distinct=distinct if ranks >= COPIED_FROM else None, prefix=PREFIX)
    size = sum(path.stat().st_size for path in paths)
    print(f"wrote {ranks:,} dumps, {size / 2**20:,.0f} MiB, in {time.monotonic() - begun:.1f} s", file=sys.stderr)


def _measure(contestant: Contestant, folder: Path, limit: float) -> None:
    if contestant.failed:
        return
    command = [word.replace("{dir}", str(folder)) for word in contestant.command]
    begun = time.monotonic()
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
        contestant.mebibytes.append(peak)


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


def _print_table(ranks: int, contestants: list[Contestant]) -> None:
    ours = next((one for one in reversed(contestants) if one.seconds), None)
    print(f"\n### {ranks:,} ranks, 2,000 entries of 10 frames each\n")
    print("| | time, s | peak memory, MiB | time, × the last row | memory, × the last row |")
    print("|---|---:|---:|---:|---:|")
    for one in contestants:
        if one.failed or not one.seconds or ours is None:
            print(f"| {one.name} | {one.failed or 'not run'} | | | |")
            continue
        seconds, memory = statistics.median(one.seconds), statistics.median(one.mebibytes)
        base_s, base_m = statistics.median(ours.seconds), statistics.median(ours.mebibytes)
        print(f"| {one.name} | {seconds:.2f} | {memory:,.0f} | {seconds / base_s:.2f} | {memory / base_m:.2f} |")
    print(flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
