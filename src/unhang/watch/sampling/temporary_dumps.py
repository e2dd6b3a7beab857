"""Dumps that are asked for, read and dropped in the life of a job; what a rank leaves as it falls is not among them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def dump_times(dumps: Path) -> dict[Path, int]:
    """The dumps that lie there, and when each was written (nanoseconds)."""
    found: dict[Path, int] = {}
    for path in dumps.glob("rank_*"):
        with suppress(OSError):
            found[path] = path.stat().st_mtime_ns
    return found


def remove_unchanged(read: Mapping[Path, int]) -> None:
    """Remove those that were read; one that was written since is the last word of a rank, and stays."""
    for path, written_ns in read.items():
        if (path.parent.parent / "crash" / f"{path.name}.except").exists():
            continue  # it fell while the others answered
        with suppress(OSError):
            if path.stat().st_mtime_ns == written_ns:
                path.unlink()
