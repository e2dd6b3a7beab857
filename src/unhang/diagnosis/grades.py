"""How certain a signal makes a finding: what it rests on, and whether what could contradict it is missing."""

from __future__ import annotations

from dataclasses import replace

from unhang.causes.detector import Signal
from unhang.findings import Certainty, Finding, Grade

_LIKELY, _POSSIBLE = Certainty.LIKELY, Certainty.POSSIBLE
CERTAINTY: dict[Grade, tuple[Certainty, Certainty]] = {
    Grade.KERNEL: (Certainty.CERTAIN, _LIKELY),
    Grade.RECORD: (Certainty.CERTAIN, _LIKELY),
    Grade.SOURCE: (Certainty.CERTAIN, _LIKELY),
    Grade.STATED: (Certainty.CERTAIN, _LIKELY),
    Grade.STACK: (_LIKELY, _POSSIBLE),
    Grade.ORDER: (_LIKELY, _POSSIBLE),
    Grade.WORDS: (_POSSIBLE, _POSSIBLE),
    Grade.BASE_RATE: (_POSSIBLE, _POSSIBLE),
}
"""Certainty where the signal is whole, and where it is not."""


def grade_signal(signal: Signal, detector: str) -> Finding:
    """``signal``'s finding with the certainty its grade allows, and the detector's name."""
    whole, not_whole = CERTAINTY[signal.grade]
    return replace(signal.finding, certainty=whole if signal.whole else not_whole, detector=detector)
