"""What ``unhang check`` warns of, as rows: ``knowledge/risks/<family>.toml`` holds the words, causes and remedies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from unhang.findings import Cause, Grade, Severity
from unhang.knowledge.remedies import RemedyRow
from unhang.knowledge.tables import read_typed
from unhang.knowledge.words import Phrase


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
    """One family. ``gap``: the question where nobody could look; ``fine``: what is said where there is no such risk."""

    risk: Mapping[str, RiskRow] = {}
    gap: Mapping[str, Phrase] = {}
    fine: Mapping[str, Phrase] = {}
    words: Mapping[str, Phrase] = {}
    remedy: Mapping[str, RemedyRow] = {}


@cache
def risk_file(family: str) -> RiskFile:
    """The rows of ``knowledge/risks/<family>.toml``.

    Raises:
        KnowledgeError: a row lacks something, or holds something unknown.
    """
    return read_typed(f"risks/{family}.toml", RiskFile)
