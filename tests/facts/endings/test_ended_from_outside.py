"""Whom the launcher ended because it was told to end itself."""

from __future__ import annotations

from unhang.evidence.items import LogEvent, ProcessExit
from unhang.facts.endings.ended_from_outside import mark_ended_by_launcher
from unhang.facts.model import RankFacts
from unhang.findings import Source

TOLD = "Received 2 death signal, shutting down workers"


def said(kind: str, line: int, text: str = "", *, attempt: int = 0) -> LogEvent:
    return LogEvent(kind, Source("launcher.log", line), text, None, None, attempt=attempt)


def closed(exit_code: int, *events: LogEvent) -> bool:
    """Whether rank 0, which ended with ``exit_code``, was ended by its launcher."""
    exit_ = ProcessExit(Source("bundle.json"), 0, 0, 100, exit_code, 50.0, source_kind="bundle")
    ended = mark_ended_by_launcher({0: RankFacts(0, exit=exit_)}, events)[0].exit
    assert ended is not None
    return ended.terminated_by_launcher


def test_a_launcher_that_is_told_to_end_kills_who_is_stuck() -> None:
    assert closed(-9, said("te.signal", 4, TOLD))
    assert closed(-15, said("te.sigexc", 4))


def test_what_a_process_did_itself_stays_its_own() -> None:
    assert not closed(-11, said("te.signal", 4, TOLD))
    assert not closed(1, said("te.signal", 4, TOLD))
    assert not closed(-9)


def test_a_rank_that_had_failed_before_was_not_ended_by_the_launcher() -> None:
    assert not closed(-9, said("te.failed", 2), said("te.signal", 4, TOLD))
    assert closed(-9, said("te.signal", 4, TOLD), said("te.failed", 9))


def test_an_end_in_another_attempt_tells_nothing() -> None:
    assert not closed(-9, said("te.signal", 4, TOLD, attempt=1))
