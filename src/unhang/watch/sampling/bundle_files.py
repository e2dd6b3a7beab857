"""Which files of a folder are its evidence: what a manifest lists, and what one node sends another; the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from unhang.watch import private_files
from unhang.watch.machine import series_file
from unhang.wire.documents.bundle import BundleManifest

EVIDENCE_FOLDERS = ("stacks", "dumps", "crash", "machine", "nccl", "logs")
SOURCE_FOLDER = "source"


def evidence_files(folder: Path) -> Iterator[Path]:
    """The evidence below ``folder``, most telling kinds first; without samples of the machine that are full, which
    give way to newer ones, and without what is still being written (its name begins with a dot)."""
    for kind in EVIDENCE_FOLDERS:
        yield from _below(folder / kind)


def manifest_files(folder: Path) -> list[str]:
    """The manifest's ``files``: the evidence and the program, by their paths in ``folder``; without empty files, which
    tell nothing and which their writers take away when they end."""
    paths = (*evidence_files(folder), *_below(folder / SOURCE_FOLDER))
    names = (path.relative_to(folder).as_posix() for path in paths if holds_something(path))
    return [name for name in names if name.isprintable()]  # a name that is no text would make the manifest unreadable


def write_manifest(folder: Path, manifest: BundleManifest) -> None:
    """Write ``bundle.json`` anew, with the list of what lies beside it by now."""
    whole = msgspec.structs.replace(manifest, files=tuple(manifest_files(folder)))
    private_files.write_json(folder / "bundle.json", msgspec.to_builtins(whole))


def holds_something(path: Path) -> bool:
    """``path`` is there and not empty."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False  # taken away meanwhile


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        hidden = path.name.startswith(".")
        if path.is_file() and not path.is_symlink() and not hidden and not series_file.is_rotated(path):
            yield path
