"""Bugs put back on purpose, each found within a bound: a fuzzer that finds nothing has to show that it could.

Each is a replacement in a copy of the package; the copy is what the fuzzer then imports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Bug:
    """``now`` in ``file`` becomes ``then``; ``target`` finds it among ``count`` inputs, by a sentence with ``says``."""

    name: str
    file: str
    now: str
    then: str
    target: str
    count: int
    says: str


BUGS = (
    Bug(
        "text becomes a number outside knowledge/numbers.py",
        "evidence/logs/lines/timestamps.py",
        "seconds = numbers.duration_s(part, unit_s)",
        "seconds = int(part) * unit_s",
        "readers",
        40_000,
        "failed: log",
    ),
    Bug(
        "a dump is unpickled",
        "evidence/flight_recorder/reading.py",
        "    return read(data, shared, whole=whole)\n",
        "    __import__('pickle').loads(data)\n    return read(data, shared, whole=whole)\n",
        "readers",
        8000,
        "executed:",
    ),
    Bug(
        "control characters reach the output",
        "report/printable.py",
        'return "" if category in _HIDDEN else character',
        "return character",
        "diagnose",
        800,
        "control character",
    ),
    Bug(
        "a rank that stands in a group and left nothing is not known",
        "facts/build.py",
        "members = set(world).union(*{id(group.members): group.members for group in groups.values()}.values())",
        "members = set(world)",
        "jobs",
        300,
        "KeyError",
    ),
    Bug(
        "text of another node that is no UTF-8",
        "wire/documents/document.py",
        "(msgspec.DecodeError, UnicodeDecodeError, RecursionError)",
        "(msgspec.DecodeError,)",
        "wire",
        1500,
        "failed: wire: UnicodeDecodeError",
    ),
)


def prove() -> int:
    """Put every bug back, one at a time; print after how many inputs it was found."""
    missed = [bug.name for bug in BUGS if not found(bug)]
    print(f"{len(BUGS) - len(missed)} of {len(BUGS)} bugs that were put back were found")
    return 1 if missed else 0


def found(bug: Bug) -> bool:
    """Whether the fuzzer finds ``bug``."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="unhang-fuzz-") as folder:
        shutil.copytree(ROOT / "src" / "unhang", Path(folder) / "unhang")
        file = Path(folder) / "unhang" / bug.file
        text = file.read_text(encoding="utf-8")
        assert text.count(bug.now) == 1, f"{bug.name}: the place it was put back has changed"
        file.write_text(text.replace(bug.now, bug.then), encoding="utf-8")
        words = ["-m", "tests.fuzz", "--target", bug.target, "--count", str(bug.count), "--seed", "proof"]
        words += ["--until", bug.says]
        run = subprocess.run(
            [sys.executable, *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((folder, str(ROOT)))},
            capture_output=True,
            check=False,
            text=True,
        )
    lines = [line for line in run.stdout.splitlines() if " --only " in line and bug.says in line]
    how = f"{'found ' if lines else 'MISSED'} within {bug.count:,} inputs, {time.monotonic() - began:.0f} s"
    print(f"{how}: {bug.name}: {lines[0][:160] if lines else run.stderr[-300:]}", flush=True)
    return bool(lines)
