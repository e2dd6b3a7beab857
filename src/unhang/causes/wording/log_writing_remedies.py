"""What to change where one rank writes a log in the training loop: the cheapest first, each with its price."""

from __future__ import annotations

from unhang.findings import Remedy
from unhang.knowledge.remedies import remedy

_CHEAPEST_FIRST = (
    "write-fewer-and-leaner-things-to-the",
    "give-the-log-a-faster-path",
    "hand-the-log-to-a-thread-that",
    "keep-the-log-on-another-host",
)


def log_remedies() -> tuple[Remedy, ...]:
    """Fewer and leaner values, a faster path, a thread, another host."""
    return tuple(remedy(name) for name in _CHEAPEST_FIRST)
