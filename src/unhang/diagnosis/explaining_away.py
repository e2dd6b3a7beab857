"""What explains what: a stronger finding takes what it explains as its consequence. The one place that knows.

Which cause follows from which is a table (``knowledge/reasoning/causes.toml``); when it does is told here.
"""

from __future__ import annotations

from unhang.findings import Cause, Certainty, Ending, Finding, Grade, Severity
from unhang.knowledge.reasoning_rows import When, cause_rows, causes_that


def explains(root: Finding, other: Finding) -> bool:
    """``other`` tells what follows from ``root``, which is *likely* at least."""
    if root.certainty is Certainty.POSSIBLE or root.severity is Severity.NOTE:
        return False
    if leads_despite_certainty(root, other):
        return True
    if other.ending is Ending.FROM_OUTSIDE and root.cause in causes_that("kills"):
        return True
    if root.ending is Ending.NAMED and other.cause not in causes_that("no-reason"):
        return False
    alike = root.cause is other.cause or _follows(root, other, "same-ranks")
    return alike and bool(other.ranks) and set(other.ranks) <= set(root.ranks)


def leads_despite_certainty(root: Finding, other: Finding) -> bool:
    """``root`` is why ``other`` is so, also where that is the more certain of the two: a process ended for the reason
    that ``root`` names, its partners lost their connections, or ranks that it took elsewhere are in other calls."""
    if root.severity is not other.severity:
        return False
    if other.ending is Ending.NAMED:
        return root.cause not in causes_that("no-reason")
    if root.certainty is Certainty.POSSIBLE:
        return False
    if _follows(root, other, "complaint"):
        return bool(other.evidence) and other.grade is not Grade.KERNEL
    if _follows(root, other, "same-group"):
        return root.group == other.group
    if _follows(root, other, "among-its-ranks"):
        return set(root.ranks) <= set(other.ranks)
    return other.cause is Cause.RANK_CRASHED and root.cause in causes_that("kills") and _of_the_same_lines(root, other)


def _follows(root: Finding, other: Finding, when: When) -> bool:
    return other.cause in cause_rows()[root.cause].explains.get(when, ())


def _of_the_same_lines(root: Finding, crash: Finding) -> bool:
    """The crash was told by a line that also names its reason."""
    told = {(item.source.path, item.source.line) for item in crash.evidence if item.source.line is not None}
    return any((item.source.path, item.source.line) in told for item in root.evidence)
