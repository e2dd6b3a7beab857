"""What a template says of a stall or a crash: its class, by the tables that also read lines of logs, and by
``corrections.tsv``, where a person corrected one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scripts.harvest.messages_in_python import Message
from unhang.errors import KnowledgeError
from unhang.findings import Cause
from unhang.knowledge.failure_language import ELSEWHERE, HARMLESS, NAMES, VAGUE, WORDS, find_failure_statement
from unhang.knowledge.messages import MessageRow, match_message
from unhang.knowledge.templates.template_rows import ECHO, NOTHING, ROOT, WHILE_STARTING, WRAPPER

CORRECTIONS = Path(__file__).with_name("corrections.tsv")
LEFT_OUT = "left-out"
"""The class of a correction by which a template is not shipped: what it says, anything may say."""
_CLASSES = (ROOT, ECHO, WRAPPER, NOTHING, LEFT_OUT)
_STRENGTHS = ("", NAMES, WORDS, WHILE_STARTING, ELSEWHERE, VAGUE, HARMLESS)
_HARMLESS_LEVELS = ("DeprecationWarning", "FutureWarning", "PendingDeprecationWarning", "SyntaxWarning")
_OF_ANOTHER = frozenset(("peer-gone", "exit", "timeout", "waiting", "store-timeout", "restart", "killed", "aborted"))
"""What a message says (``MessageRow.says``) that is about another process."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The class of a template, the cause it names, and how strongly (``failure_language.toml``)."""

    kind: str
    cause: str = ""
    strength: str = ""


@dataclass(frozen=True, slots=True)
class Correction:
    """Of ``program`` (``*``: of any) what begins with ``start`` (in which ``*`` is anything) is ``verdict``; ``why`` is
    for the next reader."""

    program: str
    start: str
    verdict: Verdict
    why: str

    def fits(self, program: str, template: str) -> bool:
        """Whether it is about ``template`` of ``program``."""
        return self.program in (program, "*") and _start_pattern(self.start).match(template) is not None


@cache
def _start_pattern(start: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, start.split("*"))))


def verdict_of(program: str, message: Message) -> tuple[Verdict, Correction | None]:
    """What ``message`` of ``program`` says, and the correction that says so."""
    for correction in corrections_of(program):
        if correction.fits(program, message.template):
            return correction.verdict, correction
    return classify(message), None


def classify(message: Message) -> Verdict:
    """What the tables say of ``message``."""
    rows = [match.row for match in match_message(message.template.replace("{}", "1")) if not match.row.fallback]
    if message.level in _HARMLESS_LEVELS or any(row.benign for row in rows):
        return Verdict(NOTHING, "", HARMLESS)
    verdict = _by_language(message) or _by_rows(rows)
    if verdict is not None and verdict.strength in (NAMES, HARMLESS):
        return verdict
    if verdict is None and "Timeout" in message.level:
        return Verdict(ECHO, "", ELSEWHERE)
    if message.carries or any(row.wraps for row in rows):
        return Verdict(WRAPPER, "", VAGUE)
    return verdict or Verdict(NOTHING)


def _by_language(message: Message) -> Verdict | None:
    text, raised = message.template.replace("{}", "x"), not message.level[0].islower()
    said = find_failure_statement(text, raised=raised)
    if said is None:
        later = find_failure_statement(text, "start", raised=raised)
        return Verdict(ROOT, later.row.cause.value, WHILE_STARTING) if later and later.row.cause else None
    kind = {ELSEWHERE: ECHO, VAGUE: WRAPPER, HARMLESS: NOTHING}.get(said.row.strength, ROOT)
    return Verdict(kind, said.row.cause.value if said.row.cause else "", said.row.strength)


def _by_rows(rows: Sequence[MessageRow]) -> Verdict | None:
    cause = next((row.cause for row in rows if row.cause is not None), None)
    if cause is not None:
        return Verdict(ROOT, cause.value, NAMES)
    return Verdict(ECHO, "", ELSEWHERE) if any(row.says in _OF_ANOTHER for row in rows) else None


@cache
def load_corrections() -> tuple[Correction, ...]:
    """All corrections, in their order: the first that fits counts. Raises :class:`KnowledgeError` for a broken one."""
    lines = CORRECTIONS.read_text(encoding="utf-8").splitlines()
    return tuple(_correction(line) for line in lines if line and not line.startswith("#"))


@cache
def corrections_of(program: str) -> tuple[Correction, ...]:
    """Those that may be about templates of ``program``."""
    return tuple(row for row in load_corrections() if row.program in (program, "*"))


def _correction(line: str) -> Correction:
    parts = line.split("\t")
    if len(parts) != 6 or parts[2] not in _CLASSES or parts[4] not in _STRENGTHS or not parts[5]:
        raise KnowledgeError(f"{CORRECTIONS.name}: {line}: not program, start, class, cause, strength and why")
    program, start, kind, cause, strength, why = parts
    return Correction(program, start, Verdict(kind, Cause(cause).value if cause else "", strength), why)
