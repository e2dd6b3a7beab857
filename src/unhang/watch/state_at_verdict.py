"""A job that waits is ended, by us or by hand: what its ranks leave as they fall says nothing of why they waited, and
is kept apart. A rank writes its dump anew as it falls."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files

_WRITTEN_BY_RANKS = ("dumps", "crash")


def set_aside(folder: Path) -> None:
    """The end begins: what the ranks have written until now is the verdict's evidence."""
    for name in _WRITTEN_BY_RANKS:
        _move(folder, folder / ".unhang" / "judged", name)
        with suppress(OSError):
            private_files.make_folder(folder / name)


def save(folder: Path) -> None:
    """A verdict stands: what the ranks have written for it stays, by links, whoever ends the job later."""
    judged = folder / ".unhang" / "judged"
    shutil.rmtree(judged, ignore_errors=True)
    for name in _WRITTEN_BY_RANKS:
        private_files.make_folder(judged / name)
        for path in (folder / name).rglob("*"):  # the dumps of the sample before lie in a folder of their own
            kept = judged / path.relative_to(folder)
            with suppress(OSError):
                if path.is_dir():
                    private_files.make_folder(kept)
                else:
                    os.link(path, kept)


def restore_if_live(folder: Path) -> None:
    """The job is over: the evidence of a sample of the living job stands in its place where the verdict is of that
    sample. The end of a job may have shown more, and then it is of the end."""
    with suppress(OSError, ValueError):
        if json.loads((folder / "bundle.json").read_bytes()).get("live") is True:
            restore(folder)
    shutil.rmtree(folder / ".unhang" / "judged", ignore_errors=True)


def restore(folder: Path) -> None:
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
