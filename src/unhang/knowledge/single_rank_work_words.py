"""Work of one's own that a rank may do while the others wait (``own_work.toml``): how to say it, what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from unhang.knowledge.tables import rows_of


@dataclass(frozen=True, slots=True)
class OwnWork:
    """One kind of work."""

    said: str
    result: bool = False
    """What it makes can be kept, and loaded by the next run."""
    files: bool = False
    """Storage may hold it up."""
    asks: bool = False
    """Somebody else has to answer, who may be a rank that waits for this one."""
    means: bool = False
    """How something is done, not what: where the part of the step is known, that says more."""


@cache
def own_work() -> dict[str, OwnWork]:
    """All kinds, by the activity's ``what``."""
    rows = [dict(row) for row in rows_of("own_work.toml", "work", ("what", "said"))]
    return {row.pop("what"): OwnWork(**row) for row in rows}
