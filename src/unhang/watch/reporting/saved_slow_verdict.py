"""What was said of a job that moves stays in the run folder, though later samples of other things come and go."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def save(folder: Path, names: Iterable[str]) -> None:
    """The verdict in ``folder`` was said: keep a copy of it and of its evidence."""
    kept = _saved_folder(folder)
    shutil.rmtree(kept, ignore_errors=True)
    for name in names:
        _copy(folder / name, kept / name)


def restore(folder: Path) -> None:
    """Where no other verdict stands, what was said last of the moving job stands again."""
    kept = _saved_folder(folder)
    if (folder / "verdict.json").exists() or not (kept / "verdict.json").exists():
        return
    for path in kept.iterdir():
        _copy(path, folder / path.name)


def _saved_folder(folder: Path) -> Path:
    return folder / ".unhang" / "remark"


def _copy(source: Path, target: Path) -> None:
    """Modes and times stay as they are: only the owner may read, and a dump's time tells which is the newest."""
    with suppress(OSError):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copy2(source, target)
