"""Ranks that their launcher ended because it was itself told to end: Ctrl-C, a scheduler, a node that shuts down.

torchrun names the signal it got, passes it on, and 30 s later kills who is left (torch/distributed/elastic,
``_terminate_process_handler`` and ``PContext.close``). Stuck ranks are always left: in native code they hear no signal.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from unhang.evidence.items import LogEvent
from unhang.facts.model import RankFacts

_TOLD_TO_END = ("te.signal", "te.sigexc")
_FAILED = "te.failed"
_SENT = {-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGQUIT, -signal.SIGKILL}


def mark_ended_by_launcher(ranks: Mapping[int, RankFacts], events: Sequence[LogEvent]) -> dict[int, RankFacts]:
    """Exits by a signal are the launcher's doing in attempts in which it was told to end and had seen nobody fail."""
    closed = _attempts_told_to_end(events)
    return {rank: _marked(known, closed) for rank, known in ranks.items()}


def _marked(known: RankFacts, closed: set[int]) -> RankFacts:
    exit_ = known.exit
    if exit_ is None or exit_.attempt not in closed or exit_.exit_code not in _SENT:
        return known
    return replace(known, exit=replace(exit_, terminated_by_launcher=True))


def _attempts_told_to_end(events: Iterable[LogEvent]) -> set[int]:
    failed: set[int] = set()
    closed: set[int] = set()
    for event in sorted(events, key=_place):
        if event.kind == _FAILED:
            failed.add(event.attempt)
        elif event.kind in _TOLD_TO_END and event.attempt not in failed:
            closed.add(event.attempt)
    return closed


def _place(event: LogEvent) -> tuple[int, str, int]:
    return (event.attempt, event.source.path, event.source.line or 0)
