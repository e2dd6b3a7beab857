"""Which arguments, keys and variables hold a path of the job, and what it is used for (``job_paths.toml``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from unhang.knowledge.tables import read_rows


@dataclass(frozen=True, slots=True)
class PathRow:
    """Names whose values are paths of the job. ``where``: ``argument`` (of the program, or a dotted key of a file) or
    ``environment``."""

    names: tuple[str, ...]
    where: Literal["argument", "environment"]
    use: Literal["checkpoints", "logs", "dumps", "data"]
    stem: bool = False
    """The value begins the names of files; the folder is the one they lie in."""


@cache
def _rows() -> tuple[PathRow, ...]:
    return read_rows("job_paths.toml", "path", PathRow)


def names_of_paths(where: str, use: str = "") -> Iterator[tuple[str, PathRow]]:
    """Each name with its row; only those used for ``use``, where that is given."""
    return ((name, row) for row in _rows() if row.where == where and use in ("", row.use) for name in row.names)
