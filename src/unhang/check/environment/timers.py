"""Every limit that could end the planned job, who set it, and what a group gets that nobody set one for."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.findings import Evidence


@dataclass(frozen=True, slots=True)
class Timer:
    """One limit. ``kind``: ``collective`` (the watchdog's), ``first steps`` and ``later steps`` (where they differ),
    ``heartbeat``, ``start`` (rendezvous and store), ``scheduler`` (what is left), ``shutdown``.
    """

    kind: str
    seconds: float
    name: str
    """The knob: ``ddp_timeout``, ``init_process_group(timeout=)``, …"""
    evidence: Evidence | None = None
    """Where somebody set it; None for a default."""


@dataclass(frozen=True, slots=True)
class Timers:
    """``timers``: set and default ones. ``groups_without``: calls that make groups and give no limit, so that they get
    their class's default, whatever the first group was given.
    """

    timers: tuple[Timer, ...] = ()
    groups_without: tuple[Evidence, ...] = ()
    ignored: tuple[Timer, ...] = ()
    """Set, and not in force: another part makes the group first."""

    def of(self, *kinds: str) -> tuple[Timer, ...]:
        """Timers of these kinds, the shortest first."""
        return tuple(sorted((t for t in self.timers if t.kind in kinds), key=lambda t: t.seconds))
