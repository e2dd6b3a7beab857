"""What a detector is: it sees one cause in the facts and yields signals of it, or says why it cannot look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Finding, Grade, NotChecked, Severity
from unhang.sentences import Text


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that points to a cause. What it says is that of ``finding``, whose certainty is not decided yet.

    ``whole``: nothing that could contradict it is missing. ``diagnosis`` makes a certainty of grade and wholeness, and
    decides what explains what: a detector never asks what another one saw.
    """

    grade: Grade
    whole: bool
    finding: Finding


DetectorResult = Signal | NotChecked
DetectorFunction = Callable[[Facts], Iterator[DetectorResult]]


@dataclass(frozen=True, slots=True)
class Detector:
    """One detector: its name, the cause it recognises, and its check."""

    name: str
    cause: Cause
    check: DetectorFunction
    page: str
    """The module's docstring: the documentation page of the cause."""


def make_signal(cause: Cause, grade: Grade, summary: Text, *, whole: bool = True, **parts: Any) -> Signal:
    """A :class:`Signal` with severity *stops* unless ``severity`` is given; ``whole``: its evidence is complete."""
    severity = parts.pop("severity", Severity.STOPS)
    return Signal(grade, whole, Finding(cause, Certainty.POSSIBLE, severity, summary, grade=grade, **parts))
