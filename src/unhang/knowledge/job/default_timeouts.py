"""Default limits by component (``timeouts.toml``): how long each waits, and the knob that changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from unhang.errors import KnowledgeError
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


def timeout_rows() -> tuple[TimeoutRow, ...]:
    """Timeouts that hold where nothing sets them."""
    return _rows()


def timeouts_with_default(seconds: float) -> tuple[TimeoutRow, ...]:
    """Components whose default is exactly ``seconds``: where a limit in a log may come from."""
    return tuple(row for row in _rows() if row.default_s is not None and row.default_s == seconds)


@cache
def _rows() -> tuple[TimeoutRow, ...]:
    needed = ("component", "versions", "default", "source", "checked")
    return tuple(_row(table) for table in read_rows("timeouts.toml", "timeout", needed))


def _row(table: Mapping[str, Any]) -> TimeoutRow:
    try:
        return TimeoutRow(**{**table, "checked": str(table["checked"])})
    except TypeError as error:
        raise KnowledgeError(f"timeouts.toml: {table['component']}: {error}") from error
