"""In which order NCCL looks for interfaces (``interface_order.toml``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from unhang.knowledge.job.versions import version_numbers
from unhang.knowledge.tables import read_rows


@dataclass(frozen=True, slots=True)
class InterfaceOrder:
    """``steps``: beginnings of names, ``^`` before a list that is passed over; ``since`` is the first release."""

    steps: tuple[str, ...]
    running: bool
    """Interfaces that are down are passed over."""
    source: str
    since: str = ""
    until: str = ""
    """The first release of another order; empty for none."""


def interface_order(nccl: str | None) -> InterfaceOrder:
    """The order of this release of NCCL; the newest for one that is not known."""
    numbers = version_numbers(nccl or "")
    rows = _rows()
    if numbers is None:
        return rows[-1]
    return next(row for row in reversed(rows) if numbers >= (version_numbers(row.since) or ()))


@cache
def _rows() -> tuple[InterfaceOrder, ...]:
    """Oldest first."""
    return read_rows("interface_order.toml", "order", InterfaceOrder)
