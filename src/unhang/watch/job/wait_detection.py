"""Decide from the ranks' records when sampling is worth its cost: who waits, for whom, since when, how urgent.

Nothing here accuses anybody. A :class:`WaitSnapshot` says which ranks wait and what the others seem to do; the evidence
taken because of it is judged by the same detectors as all other evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from unhang.wire.documents.live_state import RankActivity
from unhang.wire.record_views import HIDDEN_COLLECTIVES, MarkedPhase, RecordView

NO_PROGRESS_S = 1.0
"""Pending work that has not moved for so long may be a stall; steps of a healthy job keep ranks waiting for less."""
WORKING_LAGGARD_S = 2.5
"""The same while a laggard works: it may be past the loop, or just slow."""
SILENT_S = 2.0
"""A live rank whose record is so old gives our thread no turn: its interpreter lock is held, or it is starved."""
USUAL_WAIT_FACTOR = 2.0
"""A wait must be so many times longer than the longest one that ended by itself."""
MAX_USUAL_WAIT_S = 20.0
MAX_URGENT_WAIT_S = 5.0
IDLE_SHARE = 0.05
STEADY_STEPS = 3
STEADY_COLLECTIVES = 10
STARTUP_FACTOR = 4
"""Before the first steps a wait is borne so many times longer."""
INIT_WAIT_S = 4.0
SAME_WAIT_NS = 100_000_000
"""Two waits do not begin so close to each other; the clock of another node is not known better."""


@dataclass(frozen=True, slots=True)
class RankSample:
    """One rank at one moment. ``state`` is its ``/proc`` letter, empty when the process is gone; ``cpu_share`` the
    processors it and its children used since the sample before (about a second), 1.0 is one processor."""

    view: RecordView
    state: str = "S"
    cpu_share: float = 0.0
    ended_ns: int | None = None


class RankState(NamedTuple):
    """What one rank's sample says, by itself. ``waits_ns``: monotonic, since when it waits; ``stuck``: it does not get
    on; ``rhythm``: it has done steps."""

    doing: RankActivity
    waits_ns: int | None
    stuck: bool
    in_init: bool
    rhythm: bool

    @property
    def waits(self) -> bool:
        """Whether it waits inside communication now."""
        return self.doing is RankActivity.WAITING and self.waits_ns is not None


@dataclass(frozen=True, slots=True)
class WaitSnapshot:
    """Who waits for whom at one moment. ``since_ns``: monotonic, since when the one that waits longest does.
    ``urgent``: nobody who is waited for gets on. ``due``: it lasts long enough to be sampled."""

    doing: Mapping[int, RankActivity]
    waiters: tuple[int, ...]
    laggards: tuple[int, ...]
    since_ns: int
    waited_s: float
    urgent: bool
    due: bool
    rhythm: bool
    in_init: bool = False
    """All who wait are inside ``init_process_group``."""


@dataclass(slots=True)
class UsualWaits:
    """The longest waits that ended by themselves: ``together`` when everybody waited, ``for_some`` when for a few,
    ``for_work`` when these worked and the job had done steps."""

    all_waiting_s: float = 0.0
    some_waiting_s: float = 0.0
    laggard_working_s: float = 0.0


@dataclass(slots=True)
class WaitDetector:
    """Turns samples of all ranks, taken in order, into wait snapshots; learns how long waits of this job usually
    are."""

    usual: UsualWaits = field(default_factory=UsualWaits)
    doing: dict[int, RankActivity] = field(default_factory=dict)
    """At the last sample."""
    _last: WaitSnapshot | None = None
    _counts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _unchanged_since_ns: dict[int, int] = field(default_factory=dict)

    def rank_states(self, now_ns: int, samples: Mapping[int, RankSample]) -> dict[int, RankState]:
        """The state of each rank, by its own sample alone."""
        for rank, sample in samples.items():
            self._note_counts(rank, sample, now_ns)
        self.doing = {rank: self._doing(rank, sample, now_ns) for rank, sample in samples.items()}
        return {rank: self._state(rank, sample, now_ns) for rank, sample in samples.items()}

    def judge(self, now_ns: int, states: Mapping[int, RankState]) -> WaitSnapshot | None:
        """All ranks together, wherever they were seen; None when nobody waits."""
        snapshot = self._current(now_ns, states)
        self._learn(snapshot)
        self._last = snapshot
        return snapshot

    def _state(self, rank: int, sample: RankSample, now_ns: int) -> RankState:
        what, view = self.doing[rank], sample.view
        since = self.waits_since(rank, view) if what is RankActivity.WAITING else None
        return RankState(what, since, self._stuck(sample, what, now_ns), view.in_init, has_done_steps(view))

    def _note_counts(self, rank: int, sample: RankSample, now_ns: int) -> None:
        counts = tuple(n for group in sample.view.groups for n in (group.enqueued, group.completed))
        if self._counts.get(rank) != counts:
            self._counts[rank] = counts
            self._unchanged_since_ns[rank] = max((g.changed_ns for g in sample.view.groups), default=now_ns)
            if self._unchanged_since_ns[rank] <= 0 or self._unchanged_since_ns[rank] > now_ns:
                self._unchanged_since_ns[rank] = now_ns

    def _doing(self, rank: int, sample: RankSample, now_ns: int) -> RankActivity:
        view = sample.view
        if sample.ended_ns is not None or sample.state in ("", "Z", "X"):
            return RankActivity.OVER if view.exiting or view.closed or view.ended else RankActivity.DEAD
        if sample.state == "T":
            return RankActivity.STOPPED
        if view.identity.armed_ns < 0:
            return RankActivity.ABSENT
        if view.beat_ns > 0 and view.age_s(now_ns) > SILENT_S:
            return RankActivity.OVER if view.ended else RankActivity.BUSY if view.gave_up else RankActivity.SILENT
        if self.waits_since(rank, view) is not None:
            return RankActivity.WAITING
        if view.closed or view.exiting:
            return RankActivity.OVER
        stands = view.since_ns > 0 and now_ns - view.since_ns > 1e9 * NO_PROGRESS_S
        return RankActivity.IDLE if stands and sample.cpu_share < IDLE_SHARE else RankActivity.BUSY

    def waits_since(self, rank: int, view: RecordView) -> int | None:
        """Monotonic time since when this rank waits; None when it does not."""
        counted = self._unchanged_since_ns.get(rank, view.beat_ns)
        if view.wait is not None:
            return view.wait.since_ns  # a guard of ours asks again and again: its stack never stands
        if view.in_init:
            return max(view.identity.armed_ns, view.since_ns)
        stands = max(view.since_ns, counted)
        if is_in_communication(view):
            return stands
        pending = [group for group in view.groups if group.enqueued > group.completed]
        if not pending:
            return None
        if any(group.backend.startswith("nccl") for group in pending):
            return max(group.changed_ns for group in pending)
        # Gloo may count a failed or passed call as open for ever: only a rank that stands waits.
        return stands if view.phase not in ("data", "save", "log", "eval", "compute") else None

    def _current(self, now_ns: int, states: Mapping[int, RankState]) -> WaitSnapshot | None:
        waiting = {rank: state.waits_ns for rank, state in states.items() if state.waits_ns is not None and state.waits}
        if not waiting:
            return None
        first = min(waiting, key=lambda rank: (waiting[rank], rank))
        since_ns = waiting[first]
        waited_s = (now_ns - since_ns) / 1e9
        # Who began to wait just now is still on its way: it does not hold the others up any longer than it has.
        waiters = tuple(sorted(rank for rank, since in waiting.items() if now_ns - since >= 0.3 * (now_ns - since_ns)))
        laggards = tuple(sorted(states.keys() - set(waiters)))
        urgent = all(states[rank].stuck for rank in laggards)
        in_init = all(states[rank].in_init for rank in waiters)
        doing = {rank: state.doing for rank, state in states.items()}
        return WaitSnapshot(
            doing=doing,
            waiters=(first, *(rank for rank in waiters if rank != first)),
            laggards=laggards,
            since_ns=since_ns,
            waited_s=waited_s,
            urgent=urgent,
            due=waited_s >= self._patience_s(laggards, urgent=urgent, in_init=in_init, doing=doing),
            rhythm=any(state.rhythm for state in states.values()),
            in_init=in_init,
        )

    def _stuck(self, sample: RankSample, what: RankActivity, now_ns: int) -> bool:
        if what is RankActivity.IDLE:
            return now_ns - sample.view.since_ns > 1e9 * 1.5 * NO_PROGRESS_S
        return what.frozen or what is RankActivity.OVER

    def _patience_s(
        self, laggards: tuple[int, ...], *, urgent: bool, in_init: bool, doing: Mapping[int, RankActivity]
    ) -> float:
        if any(doing[rank] in (RankActivity.STOPPED, RankActivity.DEAD) for rank in laggards):
            return NO_PROGRESS_S
        if laggards and urgent:
            return max(INIT_WAIT_S if in_init else NO_PROGRESS_S, min(MAX_URGENT_WAIT_S, self.usual.some_waiting_s))
        usual = self.usual.some_waiting_s if laggards else self.usual.all_waiting_s
        least = INIT_WAIT_S if in_init else WORKING_LAGGARD_S if laggards else NO_PROGRESS_S
        return max(least, min(MAX_USUAL_WAIT_S, USUAL_WAIT_FACTOR * usual))

    def _learn(self, snapshot: WaitSnapshot | None) -> None:
        """An episode that ended by itself tells how long waits of this job are."""
        last = self._last
        if last is None or (snapshot is not None and abs(snapshot.since_ns - last.since_ns) < SAME_WAIT_NS):
            return
        if any(last.doing[rank] in (RankActivity.STOPPED, RankActivity.DEAD) for rank in last.laggards):
            return
        if last.laggards:
            self.usual.some_waiting_s = max(self.usual.some_waiting_s, last.waited_s)
            if last.rhythm and not any(last.doing[rank].frozen for rank in last.laggards):
                self.usual.laggard_working_s = max(self.usual.laggard_working_s, last.waited_s)
        else:
            self.usual.all_waiting_s = max(self.usual.all_waiting_s, last.waited_s)


def has_done_steps(view: RecordView) -> bool:
    """The rank has done steps, or so many collectives that it must have."""
    return view.steps >= STEADY_STEPS or any(group.completed >= STEADY_COLLECTIVES for group in view.groups)


def is_in_communication(view: RecordView) -> bool:
    """Whether a rank was seen where ranks wait for each other; in backward, where gradients are exchanged, it waits
    while a call is open, and computes while none is."""
    hidden = view.top.function in HIDDEN_COLLECTIVES and any(group.enqueued > group.completed for group in view.groups)
    return view.phase == "communication" or hidden


@dataclass(frozen=True, slots=True)
class PlannedWait:
    """The marked phase of the laggard ``rank``. ``gone_s``: since it began; ``at_most_s``: its author's bound or
    None."""

    rank: int
    label: str
    gone_s: float
    at_most_s: float | None

    @property
    def over(self) -> bool:
        """It takes longer than its author allowed."""
        return self.at_most_s is not None and self.gone_s > self.at_most_s


def planned_wait(now_ns: int, snapshot: WaitSnapshot, samples: Mapping[int, RankSample]) -> PlannedWait | None:
    """The marked work that all waiters of ``snapshot`` wait for; None where a laggard marked nothing, or cannot go on.

    A rank that stands still inside a mark without a bound may as well be stuck: nothing says that it is meant.
    """
    found = []
    for rank in snapshot.laggards:
        mark = samples[rank].view.mark if rank in samples else None
        if mark is None or snapshot.doing[rank] not in (RankActivity.BUSY, RankActivity.IDLE, RankActivity.WAITING):
            return None
        if mark.at_most_ns < 0 and snapshot.doing[rank] is RankActivity.IDLE:
            return None
        found.append(_from_mark(now_ns, rank, mark))
    return max(found, key=lambda one: (one.over, one.gone_s, -one.rank), default=None)


def _from_mark(now_ns: int, rank: int, mark: MarkedPhase) -> PlannedWait:
    at_most_s = mark.at_most_ns / 1e9 if mark.at_most_ns >= 0 else None
    return PlannedWait(rank, mark.label, max(0.0, (now_ns - mark.since_ns) / 1e9), at_most_s)
