"""What stands under the headline in every output: which cause, where, since when, who is missing, how long is left."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len

from unhang.findings import Cause, Finding, Status, Verdict
from unhang.report import labels
from unhang.report.layout.claims import HEADLINE, split_claim
from unhang.report.layout.durations import duration
from unhang.report.localizer import Localizer
from unhang.sentences import Text, first_names, say

NODES_SHOWN = 3
_YEAR = re.compile(r"^\d{4}-(?=\d\d-\d\d[T ])")


def spoken_headline(verdict: Verdict, localizer: Localizer, width: int = HEADLINE) -> tuple[str, str, str]:
    """The status; one claim, at most 80 columns with it; and what else the summary says, which may be nothing."""
    word = localizer.say(labels.status_label(verdict))
    room = min(width, HEADLINE) - cell_len(word) - 2
    return (word, *split_claim(localizer.sentence(labels.headline(verdict)), room))


def first_lines(verdict: Verdict, localizer: Localizer) -> list[str]:
    """The parts, each only where it is known and the headline does not say it."""
    lead, _ = labels.first_and_others(verdict)
    about: list[str] = []
    if lead is not None:
        known = cause_of(lead, localizer)
        about = [*(known[:1] if verdict.status is Status.UNKNOWN else known), *_where(lead, localizer)]
    return [*about, *(localizer.line(localizer.say(text)) for text in _times_and_gaps(verdict, lead))]


def known_cause(cause: str, certainty: str, localizer: Localizer) -> list[str]:
    """Its id and how certain it is; nothing where the cause is unknown, of which nobody can be certain."""
    if cause == Cause.UNKNOWN.value:
        return []
    told = localizer.say(labels.told_label(certainty, labels.CERTAINTY))
    return [localizer.line(cause, 100), localizer.line(told, 100)]


def cause_of(finding: Finding, localizer: Localizer) -> list[str]:
    """The same of a finding."""
    return known_cause(finding.cause.value, finding.certainty.value, localizer)


def world_of(finding: Finding, localizer: Localizer) -> list[str]:
    """Which world its ranks are of; nothing in a job of one."""
    return [localizer.line(localizer.say(labels.world_label(finding.world)), 60)] if finding.world else []


def _where(finding: Finding, localizer: Localizer) -> Iterator[str]:
    yield from world_of(finding, localizer)
    if finding.ranks and not _names(finding.summary, finding.ranks):
        yield localizer.say(labels.ranks_label(finding.ranks))
    if finding.nodes:
        yield localizer.line(first_names(finding.nodes, NODES_SHOWN), 60)
    if finding.where is not None:
        yield localizer.place(finding.where).rsplit("/", 1)[-1]
    call = next((call for call in finding.calls if call.position is not None), None)
    if call is not None and finding.group and call.operation not in str(finding.summary):
        yield localizer.line(f"{call.operation} #{call.position}{localizer.parenthesized(finding.group)}")


def _names(text: Text, ranks: tuple[int, ...]) -> bool:
    """Whether ``text`` was made with these ranks."""
    return set(ranks) <= set(_named(text))


def _named(text: Text) -> Iterator[int]:
    for name, value in text.values.items():
        if isinstance(value, Text):
            yield from _named(value)
        elif isinstance(value, list | tuple):
            yield from value
        elif name == "rank":
            yield value


def _times_and_gaps(verdict: Verdict, lead: Finding | None) -> Iterator[Text]:
    if verdict.stalled_since:
        yield say("since {time}", time=_YEAR.sub("", spoken_time(verdict.stalled_since)))
    if verdict.noticed_after_s is not None:
        yield say("noticed after {time}", time=duration(verdict.noticed_after_s))
    # without a rank no line says whose it is; where no problem was found, the gaps name them
    missing = verdict.ranks_missing if verdict.ranks_seen and not labels.found_no_problem(verdict) else ()
    if missing and lead is not None and not _names(lead.summary, missing):
        yield say("no data from {who}", who=labels.ranks_label(missing))
    if verdict.killed_in_s is not None and verdict.gives_up:
        yield say("{guard} gives up in {time}", guard=verdict.gives_up, time=duration(verdict.killed_in_s))
    elif verdict.killed_in_s:
        yield say("the wait times out in {time}", time=duration(verdict.killed_in_s))
    elif verdict.killed_in_s is not None:
        yield say("the wait's timeout has passed")


def spoken_time(time: str) -> str:
    """``2026-11-21 15:56:57 UTC`` for ``2026-11-21T15:56:57+00:00``."""
    day, _, clock = time.partition("T")
    return f"{day} {clock}".replace("+00:00", " UTC") if clock else time
