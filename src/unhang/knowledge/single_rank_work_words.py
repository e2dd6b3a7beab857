"""Work a rank may do alone while the others wait (``own_work.toml``): how to say it, what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from unhang.knowledge.tables import read_rows


@dataclass(frozen=True, slots=True)
class SingleRankWorkWords:
    """How one kind of single-rank work is spoken of (``said``), and what is known of it."""

    what: str = ""
    """Its activity (``activities.toml``)."""
    said: str = ""
    result: bool = False
    """What it makes can be kept, and loaded by the next run."""
    files: bool = False
    """Storage may hold it up."""
    asks: bool = False
    """Somebody else has to answer, who may be a rank that waits for this one."""
    means: bool = False
    """How something is done, not what: where the part of the step is known, that says more."""


@cache
def single_rank_work_words() -> dict[str, SingleRankWorkWords]:
    """All kinds, by the activity's ``what``."""
    return {row.what: row for row in read_rows("own_work.toml", "work", SingleRankWorkWords)}
