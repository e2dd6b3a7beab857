"""What the errors of our own guards say: which ranks, and why. They are raised in ranks that did nothing wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from unhang.evidence.items import PythonTraceback
from unhang.facts.evidence_quotes import quote_traceback
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Evidence, Where
from unhang.knowledge import numbers
from unhang.knowledge.messages import rank_list
from unhang.late_pattern import late_pattern

GuardErrorKind = Literal["missing", "differ", "apart", "slow", "failed"]
_RAISED = late_pattern(r"^unhang\.errors\.(RanksMissing|RanksDiffer|RankFailed)$")
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
_ODD = late_pattern(r"is not the same on all ranks: ranks? (?P<ranks>\d[\d, -]*) (?:differs?|against)")
_ALL = late_pattern(r"is another on each of ranks? (?P<ranks>\d[\d, -]*)")
_FIRST = late_pattern(r"First difference: (?P<first>[^\n]+)")
_OF_DATA = late_pattern(
    r"\b(batch(es)?|rows?|data\w*|samples?|splits?|examples?|shards?|length|loader|epoch)\b", re.IGNORECASE
)
_NO_SEED = late_pattern(r"has no seed, so every rank draws its own|is seeded differently on every rank")
_REASON = late_pattern(r"(?P<exception>[A-Za-z_][\w.]*)(?:: |\()(?P<message>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParsedGuardError:
    """One error. ``ranks``: those it names; ``came``: those that waited for them; ``branch``: the line that lets only
    some ranks come; ``at``: where a named rank was last seen; ``detail``: the first difference, or why one failed."""

    kind: GuardErrorKind
    what: str
    ranks: tuple[int, ...]
    evidence: Evidence
    raised_at: Where | None
    came: tuple[int, ...] = ()
    branch: Where | None = None
    test: str = ""
    at: Where | None = None
    detail: str = ""
    partner_died: bool = False
    waited_s: float = 0.0


def guard_errors(tracebacks: Iterable[PythonTraceback]) -> tuple[ParsedGuardError, ...]:
    """What guards said, one for each thing said; ranks of one job often say the same."""
    found: dict[tuple[object, ...], ParsedGuardError] = {}
    for traceback in tracebacks:
        error = parse_guard_error(traceback)
        if error is not None:
            found.setdefault((error.kind, error.what, error.ranks), error)
    return tuple(found.values())


def parse_guard_error(traceback: PythonTraceback) -> ParsedGuardError | None:
    """The error, where it is a guard's and names a cause: None for settings that differ, which have none of ours."""
    raised = _RAISED.match(traceback.exception)
    if raised is None:
        return None
    if raised[1] == "RanksMissing":
        return _missing(traceback)
    return _failed(traceback) if raised[1] == "RankFailed" else _differ(traceback)


def _in_one_line(traceback: PythonTraceback) -> str:
    """The message without the line breaks that a terminal or a paste put in."""
    return " ".join(traceback.message.split())


def _missing(traceback: PythonTraceback) -> ParsedGuardError | None:
    message = _in_one_line(traceback)
    said = _MISSING.search(message)
    if said is None:
        late = _LATE.search(message)
        return _error_of(traceback, "missing", _ranks(late["ranks"])) if late is not None else None
    branch = _BRANCH.search(traceback.message)
    return _error_of(
        traceback,
        "missing",
        _ranks(said["ranks"]),
        came=_ranks(said["came"]),
        branch=Where(branch["file"], numbers.integer(branch["line"]), "") if branch is not None else None,
        test=branch["test"] if branch is not None else "",
        partner_died=bool(_SEE.search(message) or _GONE.search(message)),
    )


def _failed(traceback: PythonTraceback) -> ParsedGuardError | None:
    message = _in_one_line(traceback)
    slow = _SLOW.search(message)
    if slow is not None:
        at = Where(slow["file"], numbers.integer(slow["line"]), slow["function"] or "") if slow["file"] else None
        return _error_of(
            traceback, "slow", _ranks(slow["ranks"]), at=at, waited_s=numbers.duration_s(slow["waited"]) or 0.0
        )
    failed = _FAILED.search(message)
    return _error_of(traceback, "failed", _ranks(failed["ranks"]), detail=failed["reason"].strip()) if failed else None


def _differ(traceback: PythonTraceback) -> ParsedGuardError | None:
    message = _in_one_line(traceback)
    lengths = _LENGTHS.search(message)
    if lengths is not None:
        counts = {
            rank: numbers.integer(each["count"]) or 0
            for each in _EACH.finditer(lengths["told"])
            for rank in _ranks(each["ranks"])
        }
        return _error_of(traceback, "differ", _outlier_ranks(counts), detail=lengths["told"].strip())
    apart = _APART.search(message)
    if apart is not None:
        return _error_of(traceback, "apart", _ranks(apart["ranks"]))
    named = _ODD.search(message) or _ALL.search(message)
    headline = message.partition("First difference:")[0]
    if named is None or not (_OF_DATA.search(headline) or _NO_SEED.search(message)):
        return None
    first = _FIRST.search(traceback.message)
    return _error_of(
        traceback, "differ", _ranks(named["ranks"]), detail=(first["first"] if first else headline).strip()
    )


def _error_of(
    traceback: PythonTraceback, kind: GuardErrorKind, ranks: tuple[int, ...], **more: Any
) -> ParsedGuardError:
    what = _WHAT.match(traceback.message)
    evidence = quote_traceback(traceback)
    own = tuple(frame for frame in traceback.frames if "unhang/" not in frame.file.replace("\\", "/"))
    return ParsedGuardError(kind, what["what"] if what else "", ranks, evidence, first_user_frame(own), **more)


def _outlier_ranks(counts: dict[int, int]) -> tuple[int, ...]:
    """Ranks whose count is not that of most; all where there is no most."""
    values = list(counts.values())
    usual = max(set(values), key=values.count) if values else 0
    odd = tuple(sorted(rank for rank, count in counts.items() if count != usual))
    return odd if 2 * len(odd) < len(values) else tuple(sorted(counts))


def _ranks(told: str) -> tuple[int, ...]:
    """``0, 2-4`` as numbers."""
    return rank_list(told)


def split_exception(reason: str) -> tuple[str, str]:
    """(exception, message) of the word another rank left, ``OSError: [Errno 28] …`` or ``OSError(28, …)``."""
    said = _REASON.match(reason)
    return (said["exception"], said["message"]) if said is not None else ("", reason)
