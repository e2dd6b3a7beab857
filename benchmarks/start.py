"""Measure short commands from the shell: a one-line log, one word to explain, the help.

    python -m benchmarks start                       # this version
    python -m benchmarks start --source OTHER/src    # and another one, in turns

Each figure is the median processor time (user and system) of fresh processes, modules compiled by an earlier one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

COMMANDS = ("diagnose rank0.log", "diagnose --format json rank0.log", "explain Xid 79", "--help", "--version")
_MAIN = "from unhang.cli.main import main; main()"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every command in turns, print the table."""
    title = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks start", description=title)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--source", type=Path, help="the src folder of another version")
    options = parser.parse_args(arguments)
    sources: list[Path | None] = [None, *([options.source] if options.source is not None else [])]
    print("| median seconds of processor time | now |" + (" other |" if options.source is not None else ""))
    print("|---|" + "---:|" * len(sources))
    with tempfile.TemporaryDirectory(prefix="unhang-bench-") as scratch:
        Path(scratch, "rank0.log").write_text("x\n", encoding="utf-8")
        for command in COMMANDS:
            runs = [[_seconds(command, source, scratch) for source in sources] for _ in range(options.repeats + 1)]
            medians = (statistics.median(times) for times in zip(*runs[1:], strict=True))
            print(f"| `unhang {command}` | {' | '.join(f'{median:.2f}' for median in medians)} |", flush=True)
    return 0


def _seconds(command: str, source: Path | None, folder: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if source is not None:
        environment["PYTHONPATH"] = str(source.resolve())
    process = subprocess.Popen(
        [sys.executable, "-c", _MAIN, *command.split()],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
