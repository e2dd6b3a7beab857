"""What one sample leaves in the run folder, as a whole: it is put away with its verdict, or cleared away."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from unhang.watch.reporting import saved_slow_verdict
from unhang.watch.sampling import earlier_evidence

_DOCUMENTS = ("verdict.json", "report.html", "bundle.json")
SAMPLE_PARTS = (*_DOCUMENTS, "dumps", "stacks", "source", *earlier_evidence.MACHINE_FILES)


def archive(folder: Path, number: int) -> None:
    """The verdict on a wait that is over is history, and its evidence must not pass for that of a later one."""
    past = folder / ".unhang" / "past" / str(number)
    with suppress(OSError):
        (past / "machine").mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in SAMPLE_PARTS:
        with suppress(OSError):
            (folder / name).rename(past / name)
    _begin_anew(folder)


def discard(folder: Path) -> None:
    """Nothing came of the last sample."""
    for name in SAMPLE_PARTS:
        with suppress(OSError):
            (folder / name).unlink()
        shutil.rmtree(folder / name, ignore_errors=True)
    _begin_anew(folder)


def _begin_anew(folder: Path) -> None:
    with suppress(OSError):
        (folder / "dumps").mkdir(mode=0o700, exist_ok=True)
    saved_slow_verdict.restore(folder)
