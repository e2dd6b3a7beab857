"""What a node tells of its ranks: a few numbers while all is well, one entry a rank in columns while somebody waits.

Times are the node's own monotonic nanoseconds; ``at_ns`` is when it wrote, so that a reader sees ages. Clocks of nodes
are never compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from unhang.watch.job.wait_detection import RankSample, RankState
from unhang.watch.pace.call_drift import MAX_GROUPS as PRINTED_GROUPS
from unhang.watch.pace.call_drift import MAX_STRETCHES, CallDigest
from unhang.watch.pace.pace_over_nodes import NodePace
from unhang.wire.documents.document import DECODE_ERRORS
from unhang.wire.documents.live_state import RankActivity
from unhang.wire.process_registration import host_name
from unhang.wire.record_views import PHASES

ACTIVITIES = tuple(RankActivity)
STUCK, IN_INIT, HAS_DONE_STEPS = 1, 2, 4
LAYOUT = 2
"""One more whenever a field of what nodes send moves: a message of another layout is not read at all."""
MAX_GROUPS = 32
MAX_RANKS = 1024
"""Of one node: what says more is not believed."""
Ranks = Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(max_length=MAX_RANKS)]
Message = TypeVar("Message")


class DigestGroup(msgspec.Struct, array_like=True, frozen=True):
    """One group: positions of the node's ranks that are in it."""

    name: str
    backend: str
    size: int
    rank: list[int]
    enqueued: list[int]
    completed: list[int]

    def __post_init__(self) -> None:
        if not len(self.rank) == len(self.enqueued) == len(self.completed):
            raise ValueError("columns of different length")


class DigestColumns(msgspec.Struct, array_like=True, frozen=True):
    """One entry a rank. ``doing``: index into :data:`ACTIVITIES`; ``phase`` into ``PHASES``; ``place`` and ``label``
    into their lists, -1 without one; ``*_ns``: since when, -1 where there is none."""

    rank: Ranks
    doing: list[Annotated[int, msgspec.Meta(ge=0, lt=len(ACTIVITIES))]]
    waits_ns: list[int]
    flags: list[int]
    phase: list[Annotated[int, msgspec.Meta(ge=0, lt=len(PHASES))]]
    step: list[int]
    step_ms: list[float]
    still_ns: list[int]
    beat_ns: list[int]
    place: list[int]
    label: list[int]
    places: list[str]
    labels: list[str]
    marks: list[tuple[int, int, int]]
    """(rank, since_ns, at_most_ns) of those that are in a marked phase."""
    groups: list[DigestGroup]

    def __post_init__(self) -> None:
        if any(len(getattr(self, name)) != len(self.rank) for name in _BY_RANK):
            raise ValueError("columns of different length")
        for column, texts in ((self.place, self.places), (self.label, self.labels)):
            if any(not -1 <= at < len(texts) for at in column):
                raise ValueError("a text that is not there")


_BY_RANK = DigestColumns.__struct_fields__[:11]


class NodeDigest(msgspec.Struct, array_like=True, frozen=True, tag=LAYOUT):
    """One node at one moment. ``waits_ms``: how long the rank that waits longest has, -1: nobody does.
    ``over``: its command has ended, 1 well, 2 not."""

    at_ns: int
    deaths: int
    waits_ms: int
    over: int = 0
    columns: DigestColumns | None = None
    pace: NodePace | None = None
    """Of a job that moves, once enough was seen."""
    calls: Annotated[list[CallDigest], msgspec.Meta(max_length=MAX_STRETCHES * PRINTED_GROUPS)] = []
    """What its ranks called, for a while after they were compared."""


class NodeHello(msgspec.Struct, array_like=True, frozen=True, tag=LAYOUT):
    """Who a node is; changes rarely. ``wall_ns``: its clock at ``at_ns``."""

    name: str
    host: str
    address: str
    ranks: Annotated[list[int], msgspec.Meta(max_length=MAX_RANKS)]
    at_ns: int
    wall_ns: int


class NodeRanks(NamedTuple):
    """A node's ranks as its watcher sees them at one moment."""

    samples: Mapping[int, RankSample]
    states: Mapping[int, RankState]

    def waited_ms(self, now_ns: int) -> int:
        """How long the one that waits longest has; -1: nobody does."""
        since = [state.waits_ns for state in self.states.values() if state.waits_ns is not None and state.waits]
        return (now_ns - min(since)) // 1_000_000 if since else -1


def digest_of(now_ns: int, ranks: NodeRanks, *, deaths: int, over: int, whole: bool) -> NodeDigest:
    """``whole``: with columns."""
    return NodeDigest(now_ns, deaths, ranks.waited_ms(now_ns), over, columns_of(ranks) if whole else None)


def change_key(digest: NodeDigest) -> object:
    """Equal for digests that differ only in times: then there is no hurry to send the new one."""
    told = digest.columns
    if told is None:
        return digest.deaths, digest.over
    counts = [(part.name, part.enqueued, part.completed) for part in told.groups]
    ranks = (told.rank, told.doing, told.waits_ns, told.flags, told.phase, told.step, told.place, told.label)
    return digest.deaths, digest.over, ranks, told.places, told.labels, told.marks, counts


class TextIndex:
    """Texts by number, each once."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._numbers = {text: number for number, text in enumerate(texts)}

    def number(self, text: str) -> int:
        """The number of ``text``; -1 of an empty one."""
        return self._numbers.setdefault(text, len(self._numbers)) if text else -1

    def texts(self) -> list[str]:
        """All texts, in the order of their numbers."""
        return list(self._numbers)


def columns_of(
    ranks: NodeRanks, *, most: int | None = MAX_RANKS, most_groups: int | None = MAX_GROUPS
) -> DigestColumns:
    """Every rank of a node, and the largest groups."""
    places, labels = TextIndex(), TextIndex()
    rows: list[tuple[float, ...]] = []
    marks: list[tuple[int, int, int]] = []
    groups: dict[str, DigestGroup] = {}
    for rank, sample in sorted(ranks.samples.items())[:most]:
        view, state = sample.view, ranks.states[rank]
        flags = STUCK * state.stuck + IN_INIT * state.in_init + HAS_DONE_STEPS * state.rhythm
        rows.append(
            (
                rank,
                ACTIVITIES.index(state.doing),
                state.waits_ns if state.waits_ns is not None else -1,
                flags,
                PHASES.index(view.phase) if view.phase in PHASES else PHASES.index("other"),
                view.steps if view.step_source != "none" else -1,
                round(view.step_mean_ns / 1e6, 1) if view.step_mean_ns > 0 else -1.0,
                view.since_ns,
                view.beat_ns,
                places.number(f"{view.user.file}:{view.user.line}" if view.user.file else ""),
                labels.number(view.mark.label if view.mark is not None else ""),
            )
        )
        if view.mark is not None:
            marks.append((rank, view.mark.since_ns, view.mark.at_most_ns))
        for group in view.groups:
            part = groups.setdefault(group.name, DigestGroup(group.name, group.backend, group.size, [], [], []))
            part.rank.append(rank)
            part.enqueued.append(group.enqueued)
            part.completed.append(group.completed)
    lists = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in _BY_RANK]
    largest = sorted(groups.values(), key=lambda part: (-part.size, part.name))[:most_groups]
    columns: dict[str, Any] = dict(zip(_BY_RANK, lists, strict=True))
    return DigestColumns(**columns, places=places.texts(), labels=labels.texts(), marks=marks, groups=largest)


def states_of(columns: DigestColumns, ahead_ns: int) -> dict[int, RankState]:
    """The ranks of another node for the detector. ``ahead_ns``: how far its monotonic clock is ahead of ours."""
    return {
        rank: RankState(
            ACTIVITIES[doing],
            waits - ahead_ns if waits >= 0 else None,
            bool(flags & STUCK),
            bool(flags & IN_INIT),
            bool(flags & HAS_DONE_STEPS),
        )
        for rank, doing, waits, flags in zip(columns.rank, columns.doing, columns.waits_ns, columns.flags, strict=True)
    }


def decoded(data: bytes, kind: type[Message]) -> Message | None:
    """A message from another node, which travels as msgpack, by position; None for what cannot be one."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except DECODE_ERRORS:
        return None


def clock_ahead_s(ours: NodeHello, theirs: NodeHello, ahead_ns: int) -> float:
    """How far the other node's clock is ahead of ours; ``ahead_ns``: its monotonic clock against ours."""
    own_ns = ours.wall_ns - ours.at_ns
    other_ns = theirs.wall_ns - theirs.at_ns + ahead_ns
    return (other_ns - own_ns) / 1e9


def hello_of(known: NodeHello | None, name: str, address: str, ranks: NodeRanks, now_ns: int) -> NodeHello:
    """What a node says of itself: ``known``, unless its ranks or its address are others by now."""
    numbers = sorted(ranks.samples)
    if known is not None and known.ranks == numbers and known.address == address:
        return known
    return NodeHello(name, host_name(), address, numbers, now_ns, time.time_ns())
