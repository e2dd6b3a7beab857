"""What a risk is: it judges what a check has seen, before there is a stall."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unhang.findings import Cause, Certainty, Finding, NotChecked, PassedCheck, Severity
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.sentences import Text

Answer = Finding | NotChecked | PassedCheck
Ask = Callable[[NodeInspection], Iterator[Answer]]
Compare = Callable[[Sequence[NodeInspection]], Iterator[Answer]]


@dataclass(frozen=True, slots=True)
class Risk:
    """One question: its name (the file's), the check it belongs to, and how it is asked.

    ``ask`` judges one node alone, ``compare`` several nodes or ranks beside each other; either may be missing.
    """

    name: str
    check: str
    page: str
    ask: Ask | None = None
    compare: Compare | None = None


def risk(check: str, subject: str, cause: Cause, summary: Text, **parts: Any) -> Finding:
    """A :class:`Finding` of ``check`` about ``subject`` (a variable, a device, a path).

    It would stop the job, and is likely, unless ``severity`` and ``certainty`` say otherwise.
    """
    severity = parts.pop("severity", Severity.STOPS)
    certainty = parts.pop("certainty", Certainty.LIKELY)
    return Finding(cause, certainty, severity, summary, check=check, subject=subject, **parts)


def could_not(check: str, what: Text, result: InspectionResult[Any]) -> NotChecked | None:
    """The gap that ``result`` leaves in the question ``what``; None when it found something, or nothing to find."""
    if result.because is None:
        return None
    return NotChecked(what, result.because, result.how, check=check)
