"""Which arguments, keys and variables hold a path of the job, and what it is used for (``job_paths.toml``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from unhang.errors import KnowledgeError
from unhang.knowledge.tables import read_rows

PATH_USES = ("checkpoints", "logs", "dumps", "data")
NAME_PLACES = ("argument", "environment")


@dataclass(frozen=True, slots=True)
class PathName:
    """A name whose value is a path of the job. ``where``: ``argument`` (of the program, or a dotted key of a file) or
    ``environment``."""

    name: str
    where: str
    use: str
    stem: bool = False
    """The value begins the names of files; the folder is the one they lie in."""


@cache
def path_names() -> tuple[PathName, ...]:
    """All names of ``job_paths.toml``."""
    found = []
    for row in read_rows("job_paths.toml", "path", ("names", "where", "use", "source")):
        if row["where"] not in NAME_PLACES or row["use"] not in PATH_USES:
            raise KnowledgeError(f"job_paths.toml: {row['names'][0]} has no known use or place")
        found += [PathName(name, row["where"], row["use"], bool(row.get("stem"))) for name in row["names"]]
    return tuple(found)
