"""The evidence of the sample before lies aside until a new one has come to its verdict: what is said stays proven."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files

_MANIFEST = "bundle.json"
_COPIED = (_MANIFEST, "verdict.json", "report.html")
"""They stay in their place until a new verdict takes it."""
MACHINE_FILES = tuple(
    f"machine/{name}"
    for name in (
        "pace.json",
        "compared.json",
        "memory.log",
        "kernel.log",
        "checkpoints.json",
        "history.json",
        "nodes.json",
    )
)
"""What a sample tells of the machine; its series (``machine/series.jsonl``) goes on through all samples."""
_MOVED = ("stacks", "source", *MACHINE_FILES)
_PARTS = ("dumps", *_MOVED, *_COPIED)


def set_dumps_aside(folder: Path) -> None:
    """A sample begins: the ranks will write new dumps."""
    restore(folder)
    private_files.make_folder(_aside(folder))
    for name in _COPIED:
        with suppress(OSError):
            private_files.write_atomically(_aside(folder) / name, (folder / name).read_bytes())
    _move(folder, "dumps")
    private_files.make_folder(folder / "dumps")


def copy_aside(folder: Path) -> None:
    """A last sample begins, at what the job left: it adds to what is there."""
    restore(folder)
    private_files.make_folder(_aside(folder))
    for name in _PARTS:
        with suppress(OSError):
            private_files.make_folder((_aside(folder) / name).parent)
            copy = shutil.copytree if (folder / name).is_dir() else shutil.copy2
            copy(folder / name, _aside(folder) / name)


def set_rest_aside(folder: Path) -> None:
    """A sample is done, and what it found is about to take its place."""
    for name in _MOVED:
        _move(folder, name)


def restore(folder: Path) -> None:
    """Put the evidence of the sample before back where a later sample came to nothing."""
    if (_aside(folder) / _MANIFEST).exists():
        for name in _PARTS:
            if (_aside(folder) / name).exists():
                _remove(folder / name)
                with suppress(OSError):
                    private_files.make_folder((folder / name).parent)
                    (_aside(folder) / name).rename(folder / name)
    else:
        restore_dumps(folder)
    discard(folder)


def restore_dumps(folder: Path, ranks: Iterable[int] | None = None) -> None:
    """Put back dumps no sample asked for, of ``ranks`` or all: what a rank left as it fell comes only once."""
    names = None if ranks is None else {f"rank_{rank}" for rank in ranks}
    for path in (_aside(folder) / "dumps").glob("rank_*"):
        if (names is None or path.name in names) and not (folder / "dumps" / path.name).exists():
            with suppress(OSError):
                shutil.copy2(path, folder / "dumps" / path.name)


def discard(folder: Path) -> None:
    """A new verdict stands: the evidence of the one before is needed no more."""
    shutil.rmtree(_aside(folder), ignore_errors=True)


def _move(folder: Path, name: str) -> None:
    with suppress(OSError):
        private_files.make_folder((_aside(folder) / name).parent)
        (folder / name).rename(_aside(folder) / name)


def _aside(folder: Path) -> Path:
    return folder / ".unhang" / "before"


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
