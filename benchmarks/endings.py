"""Logs that end: of runs that ended well, and of runs in which one rank announces its end while another hangs.

    python -m benchmarks endings          # the 80 of benchmarks/endings
    python -m benchmarks endings --guard  # and the stalls and crashes of cases and batches, whole and torn

A run that ended well is answered where it is called healthy or no problem is found; nothing else may be called healthy.
What was said at first sight is in ``benchmarks/endings/first_sight.jsonl``, and stays.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.first_sight import HEALTHY, ROOT, read_batch
from unhang.diagnosis.jobs import diagnose_jobs
from unhang.errors import UnhangError
from unhang.evidence.inputs import read_evidence

ENDINGS = ROOT / "benchmarks" / "endings"
NO_PROBLEM = "no problem found"


def main(arguments: Sequence[str] = ()) -> int:
    """Print how often each answer was given, and what was missed."""
    sets = {name: read_set(name) for name in ("well", "ends")}
    with multiprocessing.Pool(os.cpu_count()) as pool, tempfile.TemporaryDirectory() as folder:
        if "--guard" in arguments:
            whole = sets["stalls and crashes"] = list(troubled())
            for kept in (1 / 3, 2 / 3):
                torn_off = (torn(log, kept, Path(folder, f"{kept:.0%}", str(i))) for i, log in enumerate(whole))
                sets[f"the first {kept:.0%} of them"] = list(torn_off)
        for name, logs in sets.items():
            told = pool.map(answered, logs, chunksize=4)
            missed = [str(log) for log, answer in zip(logs, told, strict=True) if is_missed(name, answer)]
            print(f"{name}: {dict(Counter(told))}; missed: {', '.join(missed) or 'none'}")
    return 0


def read_set(name: str) -> list[Path]:
    """The logs of ``well`` or ``ends``."""
    return sorted(path for path in (ENDINGS / name).iterdir() if path.name != "truth.toml")


def troubled() -> Iterator[Path]:
    """Every stored case that is stuck, slow or broken, and every log of a batch whose job was not well."""
    for case in sorted((ROOT / "tests" / "cases").glob("*/hit_*")):
        if json.loads((case / "expected.json").read_text(encoding="utf-8")).get("status") != HEALTHY:
            yield case / "input"
    for batch in sorted((ROOT / "benchmarks" / "batches").iterdir()):
        yield from (case.log for case in read_batch(batch) if case.cause != HEALTHY)


def answered(log: Path) -> str:
    """The status, or that no problem was found."""
    try:
        verdict = diagnose_jobs(read_evidence([str(log)]))[0].verdict
    except UnhangError:
        return "refused"
    return NO_PROBLEM if verdict.status == "unknown" and verdict.health is not None else verdict.status.value


def is_missed(name: str, answer: str) -> bool:
    """Whether ``answer`` is wrong for a log of the set ``name``."""
    return answer not in (HEALTHY, NO_PROBLEM) if name == "well" else answer == HEALTHY


def torn(log: Path, kept: float, place: Path) -> Path:
    """A copy of ``log`` in ``place``; of each of its files of text only the beginning."""
    for file in [log] if log.is_file() else sorted(path for path in log.rglob("*") if path.is_file()):
        copy = place / file.relative_to(log.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
        if file.suffix in (".log", ".txt", ".out", ".err"):
            os.truncate(copy, int(kept * file.stat().st_size))
    return place / log.name
