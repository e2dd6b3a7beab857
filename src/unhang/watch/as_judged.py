"""We end a job: what its ranks leave as they fall says nothing of why they waited, and is kept apart."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files

_WRITTEN_BY_RANKS = ("dumps", "crash")


def lay_aside(folder: Path) -> None:
    """The end begins: what the ranks have written until now is the verdict's evidence."""
    for name in _WRITTEN_BY_RANKS:
        _move(folder, folder / ".unhang" / "judged", name)
        with suppress(OSError):
            private_files.make_folder(folder / name)


def bring_back(folder: Path) -> None:
    """It is over: the evidence stands in its place again, and what came since lies in ``.unhang/after-abort``."""
    judged = folder / ".unhang" / "judged"
    for name in _WRITTEN_BY_RANKS:
        if (judged / name).exists():
            _move(folder, folder / ".unhang" / "after-abort", name)
            _move(judged, folder, name)
    shutil.rmtree(judged, ignore_errors=True)


def _move(source: Path, target: Path, name: str) -> None:
    with suppress(OSError):
        private_files.make_folder(target)
        shutil.rmtree(target / name, ignore_errors=True)
        (source / name).rename(target / name)
