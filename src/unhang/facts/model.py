"""What detectors reason over: ranks, groups, progress, calls, the wait-for graph.

Built by :func:`unhang.facts.build.build_facts`; nothing in here depends on the order in which files were read.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from unhang.evidence.checkpoints.checkpoint import Checkpoint
from unhang.evidence.items import (
    Frame,
    LogEvent,
    LogReading,
    ProcessExit,
    Progress,
    PythonTraceback,
    RecorderDump,
    RecorderEntries,
    Signature,
    SourceFile,
    StackDump,
    ThreadStack,
)
from unhang.facts.pace_change import AllWait, LeastWaiting, OwnPlace, StepChange, UsedProcessor
from unhang.facts.role_wait import RoleWait
from unhang.findings import Evidence, NotChecked, Phase, Unread, Where
from unhang.knowledge.messages import MessageRow, message_row
from unhang.knowledge.numbers import TimeForm
from unhang.wire.documents.bundle import BundleManifest, RankProcess

if TYPE_CHECKING:
    from unhang.wire.documents.earlier_verdicts import EarlierSuspect
    from unhang.wire.documents.machine_series import MachineSeries
    from unhang.wire.documents.other_nodes import ObservedNode

_Told = TypeVar("_Told")
NO_PROCESS = RankProcess(rank=-1)
"""Of a rank that no watcher saw."""


class RankState(str, enum.Enum):
    """How a rank stands at the end of the evidence."""

    WAITING = "waiting"
    """Inside (or behind) a collective that has not finished."""
    LAGGARD = "laggard"
    """Others wait for it."""
    RUNNING = "running"
    """Neither waiting nor waited for."""
    CRASHED = "crashed"
    """Ended by exception or signal of its own (victims of the launcher's SIGTERM are not crashed)."""
    STOPPED = "stopped"
    """Process state T."""
    ENDED_WITH_OTHERS = "fallen"
    """Ended because another rank did: its exceptions only say that a partner is gone, or the launcher ended it."""
    ENDED = "ended"
    """Ended with exit code 0."""
    MISSING = "missing"
    """Nothing was read from it."""
    UNKNOWN = "unknown"


class CodeContext(str, enum.Enum):
    """Where a line stands in the user's program, decided from its source."""

    INSIDE_LOOP = "inside-loop"
    AFTER_LOOP = "after-loop"
    RANK_BRANCH = "rank-branch"
    """Inside an ``if`` on the rank, its else, or after a rank-dependent early return or continue."""
    EXCEPT_HANDLER = "except-handler"
    PLAIN = "plain"
    NO_SOURCE = "no-source"


@dataclass(frozen=True, slots=True)
class Activity:
    """What one rank's relevant thread was doing, read from its stack."""

    phase: Phase
    what: str
    """Key of the activity (``tokenize``, ``dataloader-wait``, ``torch-save``, ``sleep``, ``collective``, ``backward``,
    ``teardown``, ``join``, ``native``, ``compute``, …); see ``knowledge/activities.toml``."""
    where: Where | None
    """First user frame (innermost frame that is the user's own code)."""
    frames: tuple[Frame, ...]
    thread: ThreadStack | None
    context: CodeContext
    evidence: Evidence
    operation: str | None = None
    """For a thread inside a collective call: its bare operation (``all_reduce``)."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """The oldest collective a rank has entered and not finished in one group."""

    group: str
    position: int | None
    signature: Signature | None
    operation: str
    evidence: Evidence
    elements: int | None = None
    dtype: str | None = None
    where: Where | None = None
    """First user frame of the call site."""
    stack: tuple[Frame, ...] = ()
    since_s: float | None = None
    timeout_ms: int | None = None
    output_elements: int | None = None
    since_form: TimeForm = TimeForm.ZONE
    """How much of ``since_s`` its source tells; dumps count from the epoch."""


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far one rank has come in one group. Positions are -1 when there was none."""

    rank: int
    enqueued: int
    completed: int
    """Largest position known to be finished; for Gloo a lower bound."""
    pending: PendingCall | None
    source_kind: str
    """``dump``, ``status``, ``stack`` or ``log``."""
    inferred: bool = False
    """The group was recognised by comparing with peers, not named by this rank's own evidence."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One process group: members, and how far each rank is in it."""

    name: str
    """Key: the dump's group name, or a name made from the log (``PG ID 0``)."""
    description: str
    members: tuple[int, ...]
    members_known: bool
    """False when membership was taken from who spoke."""
    is_default: bool
    progress: Mapping[int, GroupProgress] = field(default_factory=dict)
    """By global rank; ranks with no word are absent."""
    silent: tuple[int, ...] = ()
    """Members from which there is no word about this group."""
    entries: Mapping[int, RecorderEntries] = field(default_factory=dict)
    """Collectives (not P2P) of this group by global rank, oldest first, for alignment by position."""
    p2p: Mapping[int, RecorderEntries] = field(default_factory=dict)
    size: int | None = None
    """How many members it has, where a rank's own record tells."""

    def pending(self, rank: int) -> PendingCall | None:
        """The call that ``rank`` is in."""
        known = self.progress.get(rank)
        return known.pending if known is not None else None

    @property
    def pending_calls(self) -> dict[int, PendingCall]:
        """By rank, of those that are in one."""
        return {rank: known.pending for rank, known in self.progress.items() if known.pending is not None}

    def with_progress(self, progress: Mapping[int, GroupProgress]) -> GroupFacts:
        """The group with what is known of its members; the others are silent."""
        return replace(self, progress=progress, silent=tuple(r for r in self.members if r not in progress))


@dataclass(frozen=True, slots=True)
class RankFacts:
    """Everything known of one rank."""

    rank: int
    host: str | None = None
    pid: int | None = None
    process: RankProcess = NO_PROCESS
    """What its watcher saw of it; the fields beside this one say where stacks and logs tell more."""
    state: RankState = RankState.UNKNOWN
    exit: ProcessExit | None = None
    process_state: str = ""
    moving: bool | None = None
    recording: RecorderDump | None = None
    stack: StackDump | None = None
    """The latest."""
    earlier_stacks: tuple[StackDump, ...] = ()
    worker_stacks: tuple[StackDump, ...] = ()
    """Latest stacks of its child processes (data-loader workers)."""
    tracebacks: tuple[PythonTraceback, ...] = ()
    """Oldest first."""
    progress: tuple[Progress, ...] = ()
    last_line: Evidence | None = None
    last_line_followed: bool = False
    """Lines of an exception or a stack stand behind it."""
    activity: Activity | None = None
    """Of the thread that issues collectives; None without a stack."""
    threads: tuple[Activity, ...] = ()
    """Of every other thread worth a word (loader workers, background writers, dead trainers)."""

    @property
    def alive(self) -> bool:
        """No evidence that the process ended before the evidence was taken."""
        return self.exit is None or self.process.killed_by_us

    @property
    def ended_well(self) -> bool:
        """Its process ended with exit code 0, before the evidence was taken."""
        return self.exit is not None and self.exit.exit_code == 0 and not self.process.killed_by_us

    @property
    def was_seen_alive(self) -> bool:
        """It lives, or the launcher ended it because others had failed and its stack of that moment is known."""
        return self.alive or (self.exit is not None and self.exit.terminated_by_launcher and self.stack is not None)


@dataclass(frozen=True, slots=True)
class WaitEdge:
    """``waiter`` cannot go on until ``awaited`` does its part in ``group`` at ``position``."""

    waiter: int
    awaited: int
    group: str
    position: int | None
    reason: str
    """``not-entered``, ``device-behind``, ``p2p-partner``, ``dead``."""


@dataclass(frozen=True, slots=True)
class WaitForGraph:
    """Who waits for whom over all groups."""

    edges: tuple[WaitEdge, ...]
    roots: tuple[int, ...]
    """Ranks that are awaited and wait for nobody: the laggards."""
    cycles: tuple[tuple[int, ...], ...]
    """Ranks of each cycle that no root feeds."""
    waiters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stall:
    """Laggards that stand at one place, and everyone who waits for them."""

    laggards: tuple[int, ...]
    waiters: tuple[int, ...]
    """Directly or through others."""
    direct_waiters: tuple[int, ...]
    group: str
    position: int | None
    """The waiters' position in ``group``."""
    reason: str
    """That of :class:`WaitEdge`."""
    call: PendingCall | None
    """What a direct waiter is in."""


@dataclass(frozen=True, slots=True)
class CallMismatch:
    """Ranks of one group issued different collectives at the same position."""

    group: str
    position: int
    calls: Mapping[Signature, tuple[int, ...]]
    """Ranks by what they called."""
    pending: Mapping[int, PendingCall]
    """By rank."""
    differs_in: tuple[str, ...]
    """Among ``operation``, ``size``, ``dtype``, ``call-site``; ``bytes`` where only size times dtype is known."""
    outliers: tuple[int, ...]
    """The minority; empty when there is a tie."""
    records_align: bool
    """The recordings really overlap at that position (not shifted by a ring that lost its start)."""
    times: int = 1
    """At so many positions, where that was counted."""
    aborted: tuple[int, ...] = ()
    """Ranks without a record of the call that Gloo ended in it because more arrived than they expected."""


@dataclass(frozen=True, slots=True)
class AllJoinedStall:
    """All members are in the same collective with the same shape, and none completed it."""

    group: str
    position: int
    operation: str
    ranks: tuple[int, ...]
    pending: Mapping[int, PendingCall]


@dataclass(frozen=True, slots=True)
class Straggler:
    """``rank`` was busy with ``activity`` in all ``samples`` samples while ``waiters`` were in communication; or came
    last to nearly all of ``positions`` collectives; or waited in the share ``waits`` of ``pace_samples`` samples, all
    others in ``others`` or more. ``change``: since when its steps take longer. ``cost``: of the time, 0 if unknown."""

    rank: int
    activity: Activity | None
    samples: int
    waiters: tuple[int, ...]
    waiter: Activity | None
    positions: int = 0
    waits: float = 0.0
    others: float = 0.0
    pace_samples: int = 0
    change: StepChange | None = None
    cost: float = 0.0
    used: UsedProcessor | None = None
    own: OwnPlace | None = None


@dataclass(slots=True)
class Facts:
    """The whole picture."""

    world_size: int | None
    ranks: Mapping[int, RankFacts]
    groups: Mapping[str, GroupFacts]
    graph: WaitForGraph
    mismatches: tuple[CallMismatch, ...]
    all_joined_stalls: tuple[AllJoinedStall, ...]
    stalls: tuple[Stall, ...]
    straggler: Straggler | None
    """In a job that moves: the rank that the others always wait for."""
    logs: tuple[LogReading, ...]
    events: tuple[LogEvent, ...]
    """All log events, ordered by time where known."""
    tracebacks: tuple[PythonTraceback, ...]
    """Of all ranks, ordered by time where known; rank None when the log does not tell."""
    exits: tuple[ProcessExit, ...]
    manifests: tuple[BundleManifest, ...]
    sources: Mapping[str, SourceFile]
    """By path as frames spell it."""
    unread: tuple[Unread, ...]
    not_checked: tuple[NotChecked, ...]
    inputs: tuple[str, ...] = ()
    unattributed_stacks: tuple[StackDump, ...] = ()
    """Stacks of which nothing tells whose they are."""
    nonfatal_mismatches: tuple[CallMismatch, ...] = ()
    """Calls that differed and did not stop the job."""
    checkpoints: tuple[Checkpoint, ...] = ()  # newest first, as far as there are samples
    earlier: tuple[EarlierSuspect, ...] = ()  # hosts and cards that verdicts of earlier runs named
    nodes: tuple[ObservedNode, ...] = ()
    """The other nodes, as the one that sampled saw them."""
    machines: tuple[MachineSeries, ...] = ()  # what the machines were doing beside the job
    all_slower: AllWait | None = None
    least_waiting: LeastWaiting | None = None
    """In a job that moves: every rank waits most of the time, and steps have grown slower."""
    beside: tuple[str, ...] = ()  # the other worlds of the job, by id
    role_waits: tuple[RoleWait, ...] = ()  # of the whole job; those of its first world have them
    _told: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def ranks_seen(self) -> tuple[int, ...]:
        """Ranks with any evidence."""
        return tuple(sorted(rank for rank, facts in self.ranks.items() if facts.state is not RankState.MISSING))

    @property
    def ranks_missing(self) -> tuple[int, ...]:
        """Ranks that exist but left nothing to read."""
        everybody = self.ranks if self.world_size is None else range(self.world_size)
        return tuple(sorted(set(everybody) - set(self.ranks_seen)))

    def cached(self, ask: Callable[[Facts], _Told]) -> _Told:
        """``ask(self)``, computed once per facts."""
        if ask not in self._told:
            self._told[ask] = ask(self)
        told: _Told = self._told[ask]
        return told

    def events_of(self, *kinds: str) -> tuple[LogEvent, ...]:
        """Log events whose kind is one of ``kinds`` or starts with one that ends in a dot (``"wd."``)."""
        return self._events(lambda kind: any(kind == k or (k.endswith(".") and kind.startswith(k)) for k in kinds))

    def events_where(self, wanted: Callable[[MessageRow], bool]) -> tuple[LogEvent, ...]:
        """Log events whose message's row ``wanted`` takes, in the order of ``events``."""
        rows = self.cached(_rows_by_kind)
        return self._events(lambda kind: wanted(rows[kind]))

    def _events(self, wanted: Callable[[str], bool]) -> tuple[LogEvent, ...]:
        told = self.cached(_places_by_kind)
        places = chain.from_iterable(told[kind] for kind in told if wanted(kind))
        return tuple(self.events[place] for place in sorted(places))


def _places_by_kind(facts: Facts) -> dict[str, list[int]]:
    """Where events of each kind stand in ``events``."""
    places: dict[str, list[int]] = {}
    for place, event in enumerate(facts.events):
        places.setdefault(event.kind, []).append(place)
    return places


def _rows_by_kind(facts: Facts) -> dict[str, MessageRow]:
    return {kind: message_row(kind) for kind in facts.cached(_places_by_kind)}


def once(ask: Callable[[Facts], _Told]) -> Callable[[Facts], _Told]:
    """``ask``, computed once per facts."""
    return wraps(ask)(lambda facts: facts.cached(ask))
