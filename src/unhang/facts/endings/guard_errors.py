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
from unhang.wire.guard_statement import MARK, RAISED_AS, GuardStatement, decode_statement
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
    said = _read_statement(traceback) or _read_english(traceback)
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


# ---------------------------------------------------------------------------------------------------
# logs without a guard's line of JSON, or with a torn one: the English sentences

_WHAT = late_pattern(r"^(?P<what>(?:the end of )?\w+(?:\('[^']*'\))?)")
_MISSING = late_pattern(r": ranks? (?P<ranks>\d[\d, -]*) did not come within .*?\(ranks? (?P<came>\d[\d, -]*) did\)")
_LATE = late_pattern(r"this rank \((?P<ranks>\d+)\) came too late")
_BRANCH = late_pattern(r"Not every rank gets here: (?P<file>.+?):(?P<line>\d+): (?P<test>[^\n]+)")
_SEE = late_pattern(r"See the output of ranks? \d[\d, -]* first")
_GONE = late_pattern(r"Rank \d+ (?:last came|never came)[^;]*; (?:(?!it is now here).){0,80}?has ended")
_LENGTHS = late_pattern(r"numbers of batches differ: (?P<told>.+)")
_EACH = late_pattern(r"(?P<ranks>ranks? \d[\d, -]*) (?P<count>\d+)(?=,|$)", re.MULTILINE)
_APART = late_pattern(r": rank (?P<ranks>\d+) goes no further than .+ while this rank goes on")
_FAILED = late_pattern(
    r": rank (?P<ranks>\d+) (?:failed(?: inside)?|could not load its first batch|goes no further than \d+ batches)"
    r": (?:its loader raised )?(?P<reason>.+)",
    re.DOTALL,
)
_SLOW = late_pattern(
    r": rank (?P<ranks>\d+) is not done after (?P<waited>\d+) s"
    r"(?:, last seen at (?P<file>.+?):(?P<line>\d+)(?: in (?P<function>\S+?))?)?;"
)
_ODD = late_pattern(
    r"^(?P<what>.+?) is (?:not the same on all ranks: ranks? (?P<ranks>\d[\d, -]*) (?:differs?|against)"
    r"|(?:another|different) on each of ranks? (?P<all>\d[\d, -]*))"
)
_FIRST = late_pattern(r"First difference: (?P<first>[^\n]+)")
_NO_SEED = late_pattern(r"has no seed, so every rank draws its own|is seeded differently on every rank")


def _read_english(traceback: PythonTraceback) -> GuardStatement | None:
    """What the sentences say; None where they are none that name a cause."""
    told = traceback.message.partition(MARK)[0].rstrip()  # behind the mark of a paste that lost its line breaks: JSON
    raised = traceback.exception.rpartition(".")[2]
    if raised == "RanksMissing":
        return _missing(told)
    return _failed(told) if raised == "RankFailed" else _differ(told)


def _in_one_line(told: str) -> str:
    """The message without the line breaks that a terminal or a paste put in."""
    return " ".join(told.split())


def _what(told: str) -> str:
    return what["what"] if (what := _WHAT.match(told)) else ""


def _missing(told: str) -> GuardStatement | None:
    message = _in_one_line(told)
    said = _MISSING.search(message)
    if said is None:
        late = _LATE.search(message)
        return GuardStatement("missing", _what(told), rank_list(late["ranks"])) if late is not None else None
    branch = _BRANCH.search(told)
    return GuardStatement(
        "missing",
        _what(told),
        rank_list(said["ranks"]),
        came=rank_list(said["came"]),
        branch=CodeLine(branch["file"], numbers.integer(branch["line"]) or 0) if branch is not None else None,
        test=branch["test"] if branch is not None else "",
        partner_died=bool(_SEE.search(message) or _GONE.search(message)),
    )


def _failed(told: str) -> GuardStatement | None:
    message = _in_one_line(told)
    slow = _SLOW.search(message)
    if slow is not None:
        at = (
            CodeLine(slow["file"], numbers.integer(slow["line"]) or 0, slow["function"] or "") if slow["file"] else None
        )
        waited_s = numbers.duration_s(slow["waited"]) or 0.0
        return GuardStatement("slow", _what(told), rank_list(slow["ranks"]), at=at, waited_s=waited_s)
    failed = _FAILED.search(message)
    if failed is None:
        return None
    return GuardStatement("failed", _what(told), rank_list(failed["ranks"]), detail=failed["reason"].strip())


def _differ(told: str) -> GuardStatement | None:
    message = _in_one_line(told)
    lengths = _LENGTHS.search(message)
    if lengths is not None:
        counts = {
            rank: numbers.integer(each["count"]) or 0
            for each in _EACH.finditer(lengths["told"])
            for rank in rank_list(each["ranks"])
        }
        odd = _outlier_ranks(counts)
        return GuardStatement("differ", _what(told), odd, detail=lengths["told"].strip(), of_data=True)
    apart = _APART.search(message)
    if apart is not None:
        return GuardStatement("apart", _what(told), rank_list(apart["ranks"]))
    headline = message.partition("First difference:")[0].strip()
    named = _ODD.search(headline)
    if named is None:
        return None
    detail = first["first"].strip() if (first := _FIRST.search(told)) else headline
    ranks = rank_list(named["ranks"] or named["all"])
    return GuardStatement("differ", named["what"], ranks, detail=detail, of_data=bool(_NO_SEED.search(message)))


def _outlier_ranks(counts: dict[int, int]) -> tuple[int, ...]:
    """Ranks whose count is not that of most; all where there is no most."""
    values = list(counts.values())
    usual = max(set(values), key=values.count) if values else 0
    odd = tuple(sorted(rank for rank, count in counts.items() if count != usual))
    return odd if 2 * len(odd) < len(values) else tuple(sorted(counts))
