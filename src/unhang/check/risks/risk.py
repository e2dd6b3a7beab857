"""What a risk is: a few lines judge what a check has seen, before there is a stall; a row says it in words
(``knowledge/risks/<family>.toml``: words, causes and remedies)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec

from unhang.diagnosis.grades import CERTAINTY
from unhang.findings import Cause, Finding, Grade, NotChecked, PassedCheck, Remedy, Severity
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.knowledge.remedies import RemedyRow, remedy
from unhang.knowledge.tables import read_typed
from unhang.knowledge.words import Phrase, text_of
from unhang.sentences import Text

Answer = Finding | NotChecked | PassedCheck
Ask = Callable[[NodeInspection], Iterator[Answer]]
Compare = Callable[[Sequence[NodeInspection]], Iterator[Answer]]


@dataclass(frozen=True, slots=True)
class Risk:
    """One question: its name (the function's), the check it belongs to, and how it is asked.

    ``ask`` judges one node alone, ``compare`` several nodes or ranks beside each other; either may be missing.
    """

    name: str
    check: str
    ask: Ask | None = None
    compare: Compare | None = None


def asked_of_a_node(check: str, *asks: Ask) -> tuple[Risk, ...]:
    """Risks of ``check`` that one node shows by itself."""
    return tuple(Risk(ask.__name__, check, ask=ask) for ask in asks)


def asked_of_several(check: str, *compares: Compare) -> tuple[Risk, ...]:
    """Risks of ``check`` that only nodes or ranks beside each other show."""
    return tuple(Risk(compare.__name__, check, compare=compare) for compare in compares)


class RiskRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is warned of.

    ``grade``: what it rests on; ``whole``: nothing that could contradict it is missing (before a job runs, much is).
    ``remedies``: ids of this file, or of ``remedies.toml``.
    """

    cause: Cause
    grade: Grade
    summary: Phrase
    because: Phrase | None = None
    subject: str = ""
    severity: Severity = Severity.STOPS
    whole: bool = False
    remedies: tuple[str, ...] = ()


class RiskFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One family. ``gap``: the question where nobody could look; ``fine``: what is said where there is no such risk;
    ``detail``: the same, for whoever asks for more."""

    risk: Mapping[str, RiskRow] = {}
    gap: Mapping[str, Phrase] = {}
    fine: Mapping[str, Phrase] = {}
    detail: Mapping[str, Phrase] = {}
    words: Mapping[str, Phrase] = {}
    remedy: Mapping[str, RemedyRow] = {}


@cache
def risk_file(family: str) -> RiskFile:
    """The rows of ``knowledge/risks/<family>.toml``.

    Raises:
        KnowledgeError: a row lacks something, or holds something unknown.
    """
    return read_typed(f"risks/{family}.toml", RiskFile)


class RiskRows:
    """The rows of one family (``knowledge/risks/<family>.toml``); ``values`` fill the places of their sentences."""

    def __init__(self, family: str) -> None:
        self._family = family

    def risk(
        self,
        name: str,
        values: Mapping[str, Any] | None = None,
        *,
        grade: Grade | None = None,
        because: tuple[Text, ...] | None = None,
        remedies: tuple[Remedy, ...] | None = None,
        **parts: Any,
    ) -> Finding:
        """What row ``name`` warns of. Parts of a :class:`Finding` that are given (not None) count before the row's."""
        row, values = self._rows.risk[name], values or {}
        grade = row.grade if grade is None else grade
        whole, not_whole = CERTAINTY[grade]
        if because is None:
            because = () if row.because is None else (text_of(row.because, values),)
        if remedies is None:
            remedies = tuple(self.remedy(one, values) for one in row.remedies)
        of_row = {"cause": row.cause, "severity": row.severity, "subject": row.subject.format(**values)}
        return Finding(
            certainty=whole if row.whole else not_whole,
            summary=text_of(row.summary, values),
            because=because,
            remedies=remedies,
            grade=grade,
            **{**of_row, **{part: value for part, value in parts.items() if value is not None}},
        )

    def fine(self, name: str, /, **values: Any) -> PassedCheck:
        """That there is no such risk, and what was seen."""
        row = self._rows.fine.get(name) or self._rows.detail[name]
        return PassedCheck("", text_of(row, values), detail=name in self._rows.detail)

    def gap(self, name: str, result: InspectionResult[Any], /, **values: Any) -> Iterator[NotChecked]:
        """The gap that ``result`` leaves in the question ``name``; none where all was found, or nothing is there."""
        if result.because is not None:
            yield self.could_not(name, result.because, result.how, **values)

    def could_not(self, name: str, because: Text, how: str = "", /, **values: Any) -> NotChecked:
        """The question ``name``, which is open ``because``; ``how``: the command that would answer it."""
        return NotChecked(text_of(self._rows.gap[name], values), because, how)

    def words(self, name: str, /, **values: Any) -> Text:
        """A further sentence."""
        return text_of(self._rows.words[name], values)

    def remedy(self, name: str, values: Mapping[str, Any] | None = None, **parts: Any) -> Remedy:
        """Remedy ``name``; parts of a :class:`Remedy` that are given (``set``) count instead of the row's."""
        row, values = self._rows.remedy.get(name), values or {}
        return replace(remedy(name, **values), **parts) if row is None else row.filled(values, row=name, **parts)

    @property
    def _rows(self) -> RiskFile:
        return risk_file(self._family)
