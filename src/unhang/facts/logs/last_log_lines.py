"""What a rank's last ordinary line speaks of: saving, evaluating, fetching data, being done."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from unhang.facts.evidence_quotes import quote_line
from unhang.facts.model import Facts
from unhang.findings import Evidence, Phase
from unhang.knowledge import numbers
from unhang.knowledge.reasoning_rows import feature_rows
from unhang.late_pattern import late_pattern

_BAR = re.compile(r"\b(\d{1,12})/(\d{1,12}) \[\d")


@dataclass(frozen=True, slots=True)
class LastLinePhase:
    """``rank``'s last line and what it speaks of."""

    rank: int | None
    phase: Phase
    time_s: float | None
    evidence: Evidence
    counting: bool = False
    """It is a bar that was not done: the rank was at work to the end of the log."""


@cache
def _words() -> tuple[tuple[Phase, re.Pattern[str]], ...]:
    return tuple((phase, late_pattern(words)) for phase, words in feature_rows().phases.items())


def phase_of_line(text: str) -> Phase | None:
    """What a line speaks of; None for lines of any other kind."""
    return next((phase for phase, pattern in _words() if pattern.search(text)), None)


def last_line_phases(facts: Facts) -> tuple[LastLinePhase, ...]:
    """Last lines that speak of one of these, by rank."""
    found = [
        LastLinePhase(
            line.rank,
            phase,
            line.time_s,
            quote_line(line),
            _is_unfinished_bar(line.text),
        )
        for log in facts.logs
        for line in log.last_lines
        if (phase := phase_of_line(line.text)) is not None
    ]
    return tuple(sorted(found, key=lambda w: (w.rank is None, w.rank or 0, w.evidence.source.path)))


def _is_unfinished_bar(text: str) -> bool:
    bar = _BAR.search(text)
    return bar is not None and (numbers.integer(bar[1]) or 0) < (numbers.integer(bar[2]) or 0)
