"""What a rule is: it recognises one cause in the facts, or says why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Finding, NotChecked, Severity, Text

Answer = Finding | NotChecked
Check = Callable[[Facts], Iterator[Answer]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name (the file's), the cause it recognises, and its check."""

    name: str
    cause: Cause
    check: Check
    page: str
    """The module's docstring: the documentation page of the rule."""


def finding(cause: Cause, certainty: Certainty, summary: Text, **parts: Any) -> Finding:
    """A :class:`Finding` that stops the job unless ``severity`` says otherwise."""
    return Finding(cause, certainty, parts.pop("severity", Severity.STOPS), summary, **parts)
