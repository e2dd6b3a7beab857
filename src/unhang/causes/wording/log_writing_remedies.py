"""What to change where one rank writes a log in the training loop: the cheapest first, each with its price."""

from __future__ import annotations

from unhang.findings import Remedy
from unhang.knowledge.remedies import remedy

_CHEAPEST_FIRST = ("reduce-logging", "log-to-local-disk", "log-from-background-thread", "log-to-tracking-server")


def log_remedies() -> tuple[Remedy, ...]:
    """Fewer and leaner values, a faster path, a thread, another host."""
    return tuple(remedy(name) for name in _CHEAPEST_FIRST)
