"""Default limits by component (``timeouts.toml``): how long each waits, and the knob that changes it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from unhang.knowledge.tables import read_rows


@dataclass(frozen=True, slots=True)
class TimeoutRow:
    """The default limit of one component in some versions."""

    component: str
    versions: str
    default: str
    """As said: ``600 s``, ``default of the class: 600 for nccl, 1800 otherwise``."""
    source: str
    checked: str
    default_s: float | None = None
    """Seconds, where it is one number."""
    knob: str = ""
    note: str = ""


@cache
def timeout_rows() -> tuple[TimeoutRow, ...]:
    """Timeouts that hold where nothing sets them."""
    return read_rows("timeouts.toml", "timeout", TimeoutRow)


def timeouts_with_default(seconds: float) -> tuple[TimeoutRow, ...]:
    """Components whose default is exactly ``seconds``: where a limit in a log may come from."""
    return tuple(row for row in timeout_rows() if row.default_s is not None and row.default_s == seconds)
