"""Measure reading one merged log of 1,024 ranks: ours beside ``rg -c`` and Python's ``re`` with the same literals.

    python -m benchmarks logs                    # 256 MB
    python -m benchmarks logs --size 2000        # MB; the figures of docs/benchmarks.md
    python -m benchmarks logs --size 300 --info  # nothing but NCCL's INFO lines
    python -m benchmarks logs --hot              # which literals are met most often, and how often for nothing

Every contestant runs in a fresh process on one core, several times in turns; the table gives the best run, by the
processor time it used (the machine may be busy with other things: its load is printed) and by the clock, and the peak
of its memory. The verdict is checked too: it must name the one rank that stayed silent.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.merged_log import ONLY_INFO, WHOLE_JOB, write_merged_log

_READER = "import sys; from unhang.evidence.logs import read_log; read_log(sys.argv[1], source='job.log')"
_WITHOUT_HYPERSCAN = (
    f"from unhang.evidence.logs.scan import literal_positions as literals; literals.COMPILE_FROM = 1 << 62; {_READER}"
)
_RE = """
import re, sys
from pathlib import Path
literals = Path(sys.argv[2]).read_bytes().splitlines()
search = re.compile(b"|".join(map(re.escape, literals))).search
left = int(sys.argv[3])
found = 0
with open(sys.argv[1], "rb") as log:
    for line in log:
        found += search(line) is not None
        left -= len(line)
        if left <= 0:
            break
"""
_RE_BYTES = 4_000_000
"""``re`` reads only the beginning: the whole would take minutes."""


@dataclass(slots=True)
class Contestant:
    """One command and its runs: (seconds by the clock, seconds of the processor, MiB at most)."""

    name: str
    command: Sequence[str]
    size: int
    runs: list[tuple[float, float, float]] = field(default_factory=list)
    failed: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the log, run everybody, print the table."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="unhang-bench-", dir=options.scratch) as scratch:
        log = Path(scratch) / "job.log"
        shares = ONLY_INFO if options.info else WHOLE_JOB
        write_merged_log(log, options.size * 1_000_000, ranks=options.ranks, shares=shares)
        if options.hot:
            _print_hot_literals(log)
            return 0
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # those we start stay on this core too
        contestants = _contestants(log, Path(scratch) / "literals")
        print("load before:", *(f"{load:.1f}" for load in os.getloadavg()))
        if not options.info:
            _print_verdict(log, options.ranks)
        for _ in range(options.repeats):
            for contestant in contestants:
                _run(contestant, options.limit)
        _print_table(log.stat().st_size, options.ranks, contestants)
        print("load after:", *(f"{load:.1f}" for load in os.getloadavg()))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks logs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=256, metavar="MB")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a command is given up")
    parser.add_argument("--scratch", default=None, help="folder for the log (default: the system's)")
    parser.add_argument("--info", action="store_true", help="a log of NCCL's INFO lines alone")
    parser.add_argument("--hot", action="store_true", help="print the literals met most often instead")
    return parser.parse_args(arguments)


def _contestants(log: Path, literals: Path) -> list[Contestant]:
    from unhang.knowledge.messages import load_messages

    known = sorted({anchor for row in load_messages() for anchor in row.anchors})
    literals.write_text("\n".join(known) + "\n", encoding="ascii")
    size = log.stat().st_size
    python = sys.executable
    found = [
        Contestant("unhang, reader alone", [python, "-c", _READER, str(log)], size),
        Contestant("unhang, reader alone, without hyperscan", [python, "-c", _WITHOUT_HYPERSCAN, str(log)], size),
        Contestant("unhang diagnose", [str(Path(python).with_name("unhang")), "diagnose", str(log)], size),
    ]
    ripgrep = shutil.which("rg")
    if ripgrep:
        command = [ripgrep, "-c", "-j1", "-a", "-F", "-f", str(literals), str(log)]
        found.append(Contestant(f"rg -c, {len(known)} literals", command, size))
    read = min(size, _RE_BYTES)
    found.append(
        Contestant("Python re, one alternation", [python, "-c", _RE, str(log), str(literals), str(read)], read)
    )
    return found


def _run(contestant: Contestant, limit: float) -> None:
    if contestant.failed:
        return
    begun = time.monotonic()
    process = subprocess.Popen(
        contestant.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_environment()
    )
    while True:
        done, status, used = os.wait4(process.pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - begun > limit:
            process.kill()
            os.waitpid(process.pid, 0)
            contestant.failed = f"given up after {limit:.0f} s"
            return
        time.sleep(0.01)
    took = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 2, 3):  # 3: a log of INFO lines alone shows nothing
        contestant.failed = f"exit code {process.returncode}"
        return
    contestant.runs.append((took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))


def _environment() -> dict[str, str]:
    """As users have it: modules stay compiled from one run to the next."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _print_verdict(log: Path, ranks: int) -> None:
    command = [str(Path(sys.executable).with_name("unhang")), "diagnose", str(log), "--format", "json"]
    ended = subprocess.run(command, capture_output=True, check=False, env=_environment())
    verdict = json.loads(ended.stdout)
    top = (verdict["findings"] or [{}])[0]
    named = (top.get("ranks"), top.get("certainty"), top.get("cause"))
    print(f"verdict: {verdict['status']}, {named}; expected: hang, [{ranks - 1}], possible, any cause\n", flush=True)


def _print_table(size: int, ranks: int, contestants: Sequence[Contestant]) -> None:
    print(f"\n### One log of {ranks:,} ranks, {size / 1e6:,.0f} MB\n")
    print("| | MB/s of processor time | MB/s by the clock | peak memory, MiB |")
    print("|---|---:|---:|---:|")
    for one in contestants:
        if one.failed or not one.runs:
            print(f"| {one.name} | {one.failed or 'not run'} | | |")
            continue
        clock, processor = min(run[0] for run in one.runs), min(run[1] for run in one.runs)
        memory = max(run[2] for run in one.runs)
        print(f"| {one.name} | {one.size / 1e6 / processor:,.0f} | {one.size / 1e6 / clock:,.0f} | {memory:,.0f} |")
    print(flush=True)


def _print_hot_literals(log: Path) -> None:
    from unhang.evidence.logs.blocks import Blocks
    from unhang.evidence.logs.scan.literal_positions import Literals
    from unhang.knowledge.messages import load_messages

    finder = Literals(
        (anchor.encode("ascii"), (row, anchor)) for row in load_messages() for anchor in row.anchors
    ).fresh()
    places: Counter[str] = Counter()
    vain: Counter[str] = Counter()
    with log.open("rb") as stream:
        for data in Blocks(stream):
            for at, (row, anchor) in finder.places(data):
                start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
                text = data[start : end if end >= 0 else len(data)].decode("utf-8", "replace")
                places[anchor] += 1
                vain[anchor] += row.pattern.search(text) is None
    print("| literal | places | of them no such message |\n|---|---:|---:|")
    for anchor, count in places.most_common(25):
        print(f"| `{anchor}` | {count:,} | {vain[anchor]:,} |")


if __name__ == "__main__":
    raise SystemExit(main())
