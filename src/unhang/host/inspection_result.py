"""Results of one node's inspections: by their type, each found, not there, or impossible to find out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from unhang.sentences import Text, say

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class InspectionResult(Generic[Found]):
    """Result of one inspection: ``found``; nothing there (``found`` and ``because`` are None); or impossible,
    ``because`` of this, and ``how`` to make it possible.

    What was found may carry a ``because`` too: it is not everything.
    """

    found: Found | None = None
    because: Text | None = None
    how: str = ""
    """The exact command that would settle it; empty when there is none."""


NOT_INSPECTED: InspectionResult[Any] = InspectionResult(because=say("it was not requested"))


@dataclass(frozen=True, slots=True)
class NodeInspection:
    """Results of all inspections on one node (or, under a launcher, one rank), by the type of the result."""

    node: str = ""
    rank: int | None = None
    results: Mapping[type, InspectionResult[Any]] = field(default_factory=dict)

    def result(self, kind: type[Found]) -> InspectionResult[Found]:
        """The answer of type ``kind``."""
        return cast("InspectionResult[Found]", self.results.get(kind, NOT_INSPECTED))

    def found(self, kind: type[Found]) -> Found | None:
        """What was found of type ``kind``, or None for whatever reason."""
        return self.result(kind).found
