"""Which arguments, keys and variables hold a path of the job, and what it is used for (``job_paths.toml``); what the
type of the file system that it lies on means for the job (``file_systems.toml``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from unhang.knowledge.tables import read_rows, rows_by


@dataclass(frozen=True, slots=True)
class PathRow:
    """Names whose values are paths of the job. ``where``: ``argument`` (of the program, or a dotted key of a file) or
    ``environment``."""

    names: tuple[str, ...]
    where: Literal["argument", "environment"]
    use: Literal["checkpoints", "logs", "dumps", "data"]
    stem: bool = False
    """The value begins the names of files; the folder is the one they lie in."""


def names_of_paths(where: str, use: str = "") -> Iterator[tuple[str, PathRow]]:
    """Each name with its row; only those used for ``use``, where that is given."""
    rows = read_rows("job_paths.toml", "path", PathRow)
    return ((name, row) for row in rows if row.where == where and use in ("", row.use) for name in row.names)


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
    return rows_by("types", "file_systems.toml", "file_system", FileSystemRow).get(kind)
