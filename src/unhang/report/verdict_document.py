"""The verdict as one JSON object (``--format json``), and its wire types (schema ``unhang.verdict/1``).

Within /1 keys and enum members are added, never renamed or removed. The JSON schema is generated from these types::

    python -m unhang.report.verdict_document > docs/verdict.schema.json
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from unhang import __version__
from unhang.findings import (
    Call,
    Candidate,
    Cause,
    Certainty,
    Consequence,
    Evidence,
    Finding,
    Health,
    NotChecked,
    PassedCheck,
    Phase,
    Remedy,
    RemedyKind,
    Restart,
    RuledOut,
    Severity,
    Source,
    Status,
    Stop,
    StopAdvice,
    SuggestedEnvironment,
    TornCheckpoint,
    Unread,
    Verdict,
    Where,
    World,
    WorldEdge,
)
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.sentences import Text

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
    world: Annotated[str | msgspec.UnsetType, msgspec.Meta(description="Of its ranks, its calls and its evidence.")] = (
        UNSET
    )


class WorldItem(msgspec.Struct, frozen=True):
    """Processes that number their ranks together."""

    id: str
    role: str
    called: str
    framework: str
    programs: list[str]
    world_size: int | None
    ranks_seen: list[Rank]
    ranks_missing: list[Rank]


class WorldEdgeItem(msgspec.Struct, frozen=True):
    """Who waited for whom across worlds."""

    waiter: str
    awaited: str
    waiter_ranks: list[Rank]
    awaited_ranks: list[Rank]
    evidence: EvidenceItem


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
    unless: str | None = None


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
    """Background, no finding: a cause that known incidents of the same looks had, and what would settle it."""

    basis: Literal["incidents"]
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


class HealthItem(msgspec.Struct, frozen=True):
    """Whether the job is well: ``certain`` or ``likely`` where it is proven; ``possible``: no problem was found."""

    certainty: Certainty
    because: list[str]


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
    health: HealthItem | None
    worlds: Annotated[list[WorldItem] | msgspec.UnsetType, msgspec.Meta(description="Absent where there is one.")] = (
        UNSET
    )
    edges: Annotated[
        list[WorldEdgeItem] | msgspec.UnsetType, msgspec.Meta(description="Absent where there is one world.")
    ] = UNSET
    files: Annotated[list[str], msgspec.Meta(description="Of this job; empty where all that was named is of one.")] = []
    other_jobs: Annotated[
        list[VerdictDocument],
        msgspec.Meta(description="Verdicts on the other jobs that files are of, the worst first."),
    ] = []


def to_json(
    verdict: Verdict,
    *,
    lang: str = "en",
    redactor: Redactor | None = None,
    jobs: Sequence[tuple[Verdict, Sequence[str]]] = (),
) -> str:
    """``verdict`` as one indented JSON object with a newline at its end (schema ``unhang.verdict/1``).

    ``jobs``: where files are of several, each with its verdict and its files, this one first.
    """
    localizer = Localizer(lang, redactor or Redactor())
    localizer.redactor.learn_from(verdict)
    for other, _ in jobs[1:]:
        localizer.redactor.learn_from(other)
    documents = [
        replace(verdict_document(told, localizer), files=[localizer.clean(name) for name in files])
        for told, files in jobs or ((verdict, ()),)
    ]
    encoded = msgspec.json.encode(replace(documents[0], other_jobs=documents[1:]))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


_ITEMS: Mapping[type, type[msgspec.Struct]] = {
    Where: PlaceItem,
    Call: CallItem,
    Evidence: EvidenceItem,
    Remedy: RemedyItem,
    Consequence: ConsequenceItem,
    Finding: FindingItem,
    RuledOut: RuledOutItem,
    NotChecked: NotCheckedItem,
    PassedCheck: CheckedItem,
    SuggestedEnvironment: SuggestedItem,
    Unread: UnreadItem,
    TornCheckpoint: TornCheckpointItem,
    Restart: RestartItem,
    Stop: StopItem,
    Candidate: CandidateItem,
    Health: HealthItem,
    World: WorldItem,
    WorldEdge: WorldEdgeItem,
}
"""The wire type of each part of a verdict: a field of it is the field of that name, told by ``_told``."""
_COMMANDS = ("how", "commands")
_NONE_WHERE_EMPTY: Mapping[type, tuple[str, ...]] = {Finding: ("check", "subject"), NotChecked: ("check",)}
_ABSENT_WHERE_EMPTY = ("world", "worlds", "edges")


def verdict_document(verdict: Verdict, localizer: Localizer) -> VerdictDocument:
    """``verdict`` as its wire type, every text said by ``localizer``."""
    head: dict[str, Any] = {"schema": SCHEMA_ID, "unhang": __version__, "lang": localizer.lang}
    others = (*head, "incidents", "files", "other_jobs")
    names = [name for name in VerdictDocument.__struct_fields__ if name not in others]
    told = {name: _told(getattr(verdict, name), localizer.clean, localizer) for name in names}
    told |= {name: told[name] if verdict.worlds else UNSET for name in _ABSENT_WHERE_EMPTY[1:]}
    # as the library has them, links and all
    incidents = [KnownIncidentItem(one.cause, one.link, one.happened, one.fixed) for one in verdict.incidents]
    return VerdictDocument(**head, **told, incidents=incidents)


def _told(value: Any, clean: Callable[[str], str], localizer: Localizer) -> Any:
    """``value`` as the wire has it; ``clean``: what is made of somebody's text in it."""
    if isinstance(value, Text):
        return localizer.say(value)
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return clean(value)
    if isinstance(value, tuple):
        return [_told(one, clean, localizer) for one in value]
    if isinstance(value, Mapping):
        return {name: clean(one) for name, one in value.items()}
    return _item(value, localizer) if type(value) in _ITEMS else value


def _item(part: Any, localizer: Localizer) -> msgspec.Struct:
    """The wire type of ``part``; of what was read, its source's path, line and byte stand in it."""
    kind, empty, told = _ITEMS[type(part)], _NONE_WHERE_EMPTY.get(type(part), ()), {}
    for name in kind.__struct_fields__:
        value = getattr(part if hasattr(part, name) else part.source, name)
        value = value.path if isinstance(value, Source) else value
        clean = localizer.command if name in _COMMANDS else localizer.clean
        told[name] = None if name in empty and not value else _told(value, clean, localizer)
        told[name] = UNSET if name in _ABSENT_WHERE_EMPTY and not value else told[name]
    return kind(**told)


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
