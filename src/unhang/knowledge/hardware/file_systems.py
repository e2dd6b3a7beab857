"""What a type of file system means for a job (``file_systems.toml``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from unhang.knowledge.tables import read_rows


@dataclass(frozen=True, slots=True)
class FileSystemRow:
    """One kind of file system. ``kind``: ``shared`` (on other machines), ``memory``, ``container``."""

    types: tuple[str, ...]
    name: str
    kind: Literal["shared", "memory", "container"]
    effect: str
    source: str
    rewrites: bool = False
    """An append writes the whole file again: what only grows takes longer and longer."""


def file_system_row(kind: str) -> FileSystemRow | None:
    """The row of a type as ``/proc/self/mountinfo`` writes it; None for local disks and what nobody knows."""
    return _by_type().get(kind)


def file_system_rows() -> tuple[FileSystemRow, ...]:
    """What is known of each kind of file system, each row once."""
    return tuple(dict.fromkeys(_by_type().values()))


@cache
def _by_type() -> Mapping[str, FileSystemRow]:
    rows = read_rows("file_systems.toml", "file_system", FileSystemRow)
    return {kind: row for row in rows for kind in row.types}
