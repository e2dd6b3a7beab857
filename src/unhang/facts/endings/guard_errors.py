"""What the errors of our own guards say: which ranks, and why. They are raised in ranks that did nothing wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from unhang.evidence.items import PythonTraceback
from unhang.facts.evidence_quotes import quote_traceback
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Evidence, Where
from unhang.knowledge import numbers
from unhang.knowledge.messages import rank_list
from unhang.late_pattern import late_pattern
from unhang.wire.guard_statement import RAISED_AS, GuardStatement, decode_statement
from unhang.wire.record_views import CodeLine

_OF_DATA = late_pattern(
    r"\b(batch(es)?|rows?|data\w*|samples?|splits?|examples?|shards?|length|loader|epoch)\b", re.IGNORECASE
)
_REASON = late_pattern(r"(?P<exception>[A-Za-z_][\w.]*)(?:: |\()(?P<message>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParsedGuardError:
    """One error: what the guard says, and where that was raised and printed. ``seen_at``: the place ``said.at``."""

    said: GuardStatement
    evidence: Evidence
    raised_at: Where | None
    seen_at: Where | None


def guard_errors(tracebacks: Iterable[PythonTraceback]) -> tuple[ParsedGuardError, ...]:
    """What guards said, one for each thing said; ranks of one job often say the same."""
    found: dict[tuple[object, ...], ParsedGuardError] = {}
    for error in filter(None, map(parse_guard_error, tracebacks)):
        found.setdefault((error.said.kind, error.said.what, error.said.ranks), error)
    return tuple(found.values())


def parse_guard_error(traceback: PythonTraceback) -> ParsedGuardError | None:
    """The error, where it is a guard's and names a cause: None for settings that differ, which have none of ours."""
    if traceback.exception not in RAISED_AS:
        return None
    from unhang.facts.endings.guard_errors_in_english import read_english  # few logs need it

    said = _read_statement(traceback) or read_english(traceback)
    if said is None or (said.kind == "differ" and not (said.of_data or _OF_DATA.search(said.what))):
        return None
    own = tuple(frame for frame in traceback.frames if "unhang/" not in frame.file.replace("\\", "/"))
    seen_at = Where(said.at.file, said.at.line, said.at.function) if said.at is not None else None
    return ParsedGuardError(said, quote_traceback(traceback), first_user_frame(own), seen_at)


def split_exception(reason: str) -> tuple[str, str]:
    """(exception, message) of the word another rank left, ``OSError: [Errno 28] …`` or ``OSError(28, …)``."""
    said = _REASON.match(reason)
    return (said["exception"], said["message"]) if said is not None else ("", reason)


def _read_statement(traceback: PythonTraceback) -> GuardStatement | None:
    """The line of JSON; None where there is none, it is torn, or it does not fit what was raised."""
    said = decode_statement(traceback.statement) or {}
    ranks = _ranks(said.get("ranks"))
    if said.get("kind") not in RAISED_AS[traceback.exception] or not ranks:
        return None
    return GuardStatement(
        kind=said["kind"],
        what=_text(said.get("what")),
        ranks=ranks,
        came=_ranks(said.get("came")),
        branch=_code_line(said.get("branch")),
        test=_text(said.get("test")),
        at=_code_line(said.get("at")),
        detail=_text(said.get("detail")),
        of_data=said.get("of_data") is True,
        partner_died=said.get("partner_died") is True,
        waited_s=numbers.duration_s(str(said.get("waited_s"))) or 0.0,
    )


def _text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _ranks(value: Any) -> tuple[int, ...]:
    """A list of ranks, or ranges of them."""
    if isinstance(value, list):
        value = ",".join(str(rank) for rank in value if type(rank) is int and 0 <= rank < numbers.MAX_RANKS)
    return rank_list(value) if isinstance(value, str) else ()


def _code_line(value: Any) -> CodeLine | None:
    if not isinstance(value, dict) or not isinstance(value.get("file"), str):
        return None
    return CodeLine(value["file"], numbers.integer(str(value.get("line"))) or 0, _text(value.get("function")))
