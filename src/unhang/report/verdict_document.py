"""The wire types of ``--format json`` (schema ``unhang.verdict/1``).

Within /1 keys and enum members are added, never renamed or removed. The JSON schema is generated from these types::

    python -m unhang.report.verdict_document > docs/verdict.schema.json
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

import msgspec

from unhang import __version__
from unhang.findings import (
    Call,
    Candidate,
    Cause,
    Certainty,
    Evidence,
    Finding,
    Phase,
    Remedy,
    RemedyKind,
    Restart,
    Severity,
    Status,
    Stop,
    StopAdvice,
    SuggestedEnvironment,
    Unread,
    Verdict,
    Where,
)
from unhang.report.localizer import Localizer

SCHEMA_ID: Final = "unhang.verdict/1"
Rank = Annotated[int, msgspec.Meta(ge=0, description="Global rank.")]


class PlaceItem(msgspec.Struct, frozen=True):
    """A place in somebody's code; lines count from 1."""

    file: str
    line: int | None
    function: str


class CallItem(msgspec.Struct, frozen=True):
    """The collective some ranks are in."""

    ranks: list[Rank]
    operation: str
    position: int | None
    elements: int | None
    dtype: str | None


class EvidenceItem(msgspec.Struct, frozen=True):
    """A piece of something that was read."""

    source: str
    line: int | None
    byte: int | None
    text: str
    rank: Rank | None
    time: str | None


class RemedyItem(msgspec.Struct, frozen=True):
    """What to change, what it costs, how to see that it worked."""

    title: str
    kind: RemedyKind
    change: str
    set: dict[str, str]
    unset: list[str]
    cost: str
    verify: str


class ConsequenceItem(msgspec.Struct, frozen=True):
    """What followed from the cause."""

    cause: Cause
    ranks: list[Rank]
    count: int
    summary: str | None


class FindingItem(msgspec.Struct, frozen=True):
    """A cause, how certain, which ranks, where, why, with its evidence."""

    cause: Cause
    certainty: Certainty
    severity: Severity
    ranks: list[Rank]
    nodes: list[str]
    group: str | None
    phase: Phase | None
    where: PlaceItem | None
    waiter_where: PlaceItem | None
    calls: list[CallItem]
    summary: str
    because: list[str]
    evidence: list[EvidenceItem]
    remedies: list[RemedyItem]
    consequences: list[ConsequenceItem]
    check: str | None
    subject: str | None


class RuledOutItem(msgspec.Struct, frozen=True):
    """A cause contradicted by evidence."""

    cause: Cause
    because: str


class NotCheckedItem(msgspec.Struct, frozen=True):
    """A question that could not be answered, and the command that would answer it."""

    what: str
    because: str
    how: str
    check: str | None


class CheckedItem(msgspec.Struct, frozen=True):
    """A question whose answer was good, and what was seen."""

    check: str
    what: str


class SuggestedItem(msgspec.Struct, frozen=True):
    """The environment to run with instead."""

    set: dict[str, str]
    unset: list[str]
    form: str
    text: str


class UnreadItem(msgspec.Struct, frozen=True):
    """Something that could not be read."""

    source: str
    line: int | None
    byte: int | None
    rank: Rank | None
    reason: str


class TornCheckpointItem(msgspec.Struct, frozen=True):
    """A checkpoint newer than the last complete one, which must not be resumed from."""

    path: str
    because: str


class RestartItem(msgspec.Struct, frozen=True):
    """Whether and how to run again."""

    advice: Literal["as-is", "after-change", "without-node", "unknown"]
    exclude_nodes: list[str]
    last_complete_checkpoint: str | None
    because: str | None
    torn_checkpoints: list[TornCheckpointItem]


class StopItem(msgspec.Struct, frozen=True):
    """Whether it is safe to stop the live job, why, and the commands, gentlest first."""

    advice: StopAdvice
    summary: str
    commands: list[str]


class CandidateItem(msgspec.Struct, frozen=True):
    """A cause that is not shown, and what would settle it."""

    cause: Cause
    share: Annotated[float, msgspec.Meta(ge=0, le=1, description="Of known incidents that looked like this.")]
    because: list[str]
    settles: str
    how: str


class KnownIncidentItem(msgspec.Struct, frozen=True):
    """A public incident that looks like this one; its texts are English."""

    cause: Cause
    link: str
    happened: str
    fixed: str


class VerdictDocument(msgspec.Struct, frozen=True):
    """One verdict. The first finding is the verdict; the others are ranked after it."""

    schema: Literal["unhang.verdict/1"]
    unhang: str
    lang: str
    status: Status
    world_size: int | None
    ranks_seen: list[Rank]
    ranks_missing: list[Rank]
    findings: list[FindingItem]
    ruled_out: list[RuledOutItem]
    not_checked: list[NotCheckedItem]
    restart: RestartItem
    unread: list[UnreadItem]
    stalled_since: str | None
    noticed_after_s: float | None
    killed_in_s: float | None
    checked: list[CheckedItem]
    suggested: SuggestedItem | None
    stop: StopItem | None
    differential: list[CandidateItem]
    incidents: list[KnownIncidentItem]


def verdict_document(verdict: Verdict, localizer: Localizer) -> VerdictDocument:
    """``verdict`` as its wire type, every text said by ``localizer``."""
    return VerdictDocument(
        schema=SCHEMA_ID,
        unhang=__version__,
        lang=localizer.lang,
        status=verdict.status,
        world_size=verdict.world_size,
        ranks_seen=list(verdict.ranks_seen),
        ranks_missing=list(verdict.ranks_missing),
        findings=[_finding(finding, localizer) for finding in verdict.findings],
        ruled_out=[RuledOutItem(item.cause, localizer.say(item.because)) for item in verdict.ruled_out],
        not_checked=[
            NotCheckedItem(
                localizer.say(item.what), localizer.say(item.because), localizer.command(item.how), item.check or None
            )
            for item in verdict.not_checked
        ],
        restart=_restart(verdict.restart, localizer),
        unread=[_unread(item, localizer) for item in verdict.unread],
        stalled_since=verdict.stalled_since,
        noticed_after_s=verdict.noticed_after_s,
        killed_in_s=verdict.killed_in_s,
        checked=[CheckedItem(item.check, localizer.say(item.what)) for item in verdict.checked],
        suggested=_suggested(verdict.suggested, localizer),
        stop=_stop(verdict.stop, localizer),
        differential=[_candidate(item, localizer) for item in verdict.differential],
        incidents=[KnownIncidentItem(i.cause, i.link, i.happened, i.fixed) for i in verdict.incidents],
    )


def _finding(finding: Finding, localizer: Localizer) -> FindingItem:
    return FindingItem(
        cause=finding.cause,
        certainty=finding.certainty,
        severity=finding.severity,
        ranks=list(finding.ranks),
        nodes=[localizer.clean(node) for node in finding.nodes],
        group=None if finding.group is None else localizer.clean(finding.group),
        phase=finding.phase,
        where=_place(finding.where, localizer),
        waiter_where=_place(finding.waiter_where, localizer),
        calls=[_call(call, localizer) for call in finding.calls],
        summary=localizer.say(finding.summary),
        because=[localizer.say(text) for text in finding.because],
        evidence=[_evidence(item, localizer) for item in finding.evidence],
        remedies=[_remedy(remedy, localizer) for remedy in finding.remedies],
        consequences=[
            ConsequenceItem(
                item.cause, list(item.ranks), item.count, localizer.say(item.summary) if item.summary else None
            )
            for item in finding.consequences
        ],
        check=finding.check or None,
        subject=localizer.clean(finding.subject) if finding.subject else None,
    )


def _suggested(block: SuggestedEnvironment | None, localizer: Localizer) -> SuggestedItem | None:
    if block is None:
        return None
    values = {name: localizer.clean(value) for name, value in block.set.items()}
    return SuggestedItem(values, list(block.unset), block.form, localizer.clean(block.text))


def _place(where: Where | None, localizer: Localizer) -> PlaceItem | None:
    if where is None:
        return None
    return PlaceItem(localizer.clean(where.file), where.line, localizer.clean(where.function))


def _call(call: Call, localizer: Localizer) -> CallItem:
    dtype = None if call.dtype is None else localizer.clean(call.dtype)
    return CallItem(list(call.ranks), localizer.clean(call.operation), call.position, call.elements, dtype)


def _evidence(item: Evidence, localizer: Localizer) -> EvidenceItem:
    source, time = item.source, None if item.time is None else localizer.clean(item.time)
    path, text = localizer.clean(source.path), localizer.clean(item.text)
    return EvidenceItem(path, source.line, source.byte, text, item.rank, time)


def _remedy(remedy: Remedy, localizer: Localizer) -> RemedyItem:
    return RemedyItem(
        title=localizer.say(remedy.title),
        kind=remedy.kind,
        change=localizer.say(remedy.change),
        set={name: localizer.clean(value) for name, value in remedy.set.items()},
        unset=list(remedy.unset),
        cost=localizer.say(remedy.cost),
        verify=localizer.say(remedy.verify),
    )


def _unread(item: Unread, localizer: Localizer) -> UnreadItem:
    source = item.source
    return UnreadItem(localizer.clean(source.path), source.line, source.byte, item.rank, localizer.clean(item.reason))


def _restart(restart: Restart, localizer: Localizer) -> RestartItem:
    checkpoint = restart.last_complete_checkpoint
    return RestartItem(
        advice=restart.advice,
        exclude_nodes=[localizer.clean(node) for node in restart.exclude_nodes],
        last_complete_checkpoint=None if checkpoint is None else localizer.clean(checkpoint),
        because=localizer.say(restart.because) if restart.because else None,
        torn_checkpoints=[
            TornCheckpointItem(localizer.clean(torn.path), localizer.say(torn.because))
            for torn in restart.torn_checkpoints
        ],
    )


def _candidate(item: Candidate, localizer: Localizer) -> CandidateItem:
    because = [localizer.say(text) for text in item.because]
    how = localizer.command(item.how)
    return CandidateItem(item.cause, item.share, because, localizer.say(item.settles), how)


def _stop(stop: Stop | None, localizer: Localizer) -> StopItem | None:
    if stop is None:
        return None
    return StopItem(stop.advice, localizer.say(stop.summary), [localizer.command(command) for command in stop.commands])


def json_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of one verdict."""
    schema = msgspec.json.schema(VerdictDocument)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "verdict.schema.json", "title": SCHEMA_ID}
    return {**head, **schema}


def schema_text() -> str:
    """The schema as it stands in ``docs/verdict.schema.json``."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
