"""What a detector is: it sees one cause in the facts and yields signals of it, or says why it cannot look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unhang.facts.model import Facts
from unhang.findings import Cause, Grade, NotChecked, Severity
from unhang.sentences import Text


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that points to a cause: the detector's, or ``cause`` where the words that were read name one.

    ``whole``: nothing that could contradict it is missing. ``parts``: those of a finding besides. ``diagnosis`` makes a
    certainty of grade and wholeness, and decides what explains what: a detector never asks what another one saw.
    """

    grade: Grade
    summary: Text
    whole: bool
    cause: Cause | None
    parts: Mapping[str, Any]


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


def make_signal(grade: Grade, summary: Text, *, whole: bool = True, cause: Cause | None = None, **parts: Any) -> Signal:
    """A :class:`Signal` with severity *stops* unless ``severity`` is given; ``whole``: its evidence is complete."""
    return Signal(grade, summary, whole, cause, {"severity": Severity.STOPS, **parts})
