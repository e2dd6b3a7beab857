"""Decide from the ranks' records when a look is worth its cost: who waits, for whom, since when, and how urgent it is.

Nothing here accuses anybody. A :class:`Standing` says which ranks wait and what the others seem to do; the evidence
taken because of it is judged by the same rules as every other evidence.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from unhang.records.record_views import HIDDEN_COLLECTIVES, RecordView

STILL_S = 1.0
"""Pending work that has not moved for so long may be a stall; steps of a healthy job keep ranks waiting for less."""
WORKING_S = 2.5
"""The same while a laggard works: it may be past the loop, or just slow."""
SILENT_S = 2.0
"""A live rank whose record is so old gives our thread no turn: its interpreter lock is held, or it is starved."""
USUAL_TIMES = 2.0
"""A wait must be so many times longer than the longest one that ended by itself."""
USUAL_LIMIT_S = 20.0
URGENT_LIMIT_S = 5.0
IDLE_SHARE = 0.05
RHYTHM_STEPS = 3
RHYTHM_COLLECTIVES = 10
INIT_S = 4.0
SAME_NS = 100_000_000
"""Two waits do not begin so close to each other; the clock of another node is not known better."""


class Doing(enum.Enum):
    """What one rank seems to be doing, from its record and ``/proc``."""

    WAITING = "waiting"
    """Inside, or behind, work that does not finish."""
    IDLE = "idle"
    """Its stack stands and no processor time is used."""
    BUSY = "busy"
    SILENT = "silent"
    """Alive, not stopped, and its record does not move."""
    STOPPED = "stopped"
    DEAD = "dead"
    ABSENT = "absent"
    """It exists and has not come to init_process_group."""
    OVER = "over"
    """It tore its group down, or its interpreter shuts down in order."""

    @property
    def frozen(self) -> bool:
        """It will not go on by itself."""
        return self in (Doing.STOPPED, Doing.DEAD, Doing.SILENT)


@dataclass(frozen=True, slots=True)
class RankLook:
    """One rank at one moment. ``state`` is its ``/proc`` letter, empty when the process is gone; ``cpu_share`` the
    processors it and its children used since the last looks (about a second), 1.0 is one processor."""

    view: RecordView
    state: str = "S"
    cpu_share: float = 0.0
    ended_ns: int | None = None


class RankState(NamedTuple):
    """What one rank's look says, by itself. ``waits_ns``: monotonic, since when it waits; ``stuck``: it does not get
    on; ``rhythm``: it has done steps."""

    doing: Doing
    waits_ns: int | None
    stuck: bool
    in_init: bool
    rhythm: bool

    @property
    def waits(self) -> bool:
        """It waits now."""
        return self.doing is Doing.WAITING and self.waits_ns is not None


@dataclass(frozen=True, slots=True)
class Standing:
    """Ranks wait. ``since_ns``: monotonic, since when the one that waits longest does. ``urgent``: nobody who is waited
    for gets on. ``due``: it lasts long enough to be looked at."""

    doing: Mapping[int, Doing]
    waiters: tuple[int, ...]
    laggards: tuple[int, ...]
    since_ns: int
    waited_s: float
    urgent: bool
    due: bool
    rhythm: bool
    in_init: bool = False
    """All who wait are inside ``init_process_group``."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal while it is the same episode."""
        return (self.waiters[:1], self.since_ns)


@dataclass(slots=True)
class Usual:
    """The longest waits that ended by themselves: ``together`` when everybody waited, ``for_some`` when for a few,
    ``for_work`` when these worked and the job had done steps."""

    together_s: float = 0.0
    for_some_s: float = 0.0
    for_work_s: float = 0.0


@dataclass(slots=True)
class Detector:
    """Sees every look at all ranks, in order."""

    usual: Usual = field(default_factory=Usual)
    doing: dict[int, Doing] = field(default_factory=dict)
    """At the last look."""
    _last: Standing | None = None
    _counts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _stood_ns: dict[int, int] = field(default_factory=dict)

    def observe(self, now_ns: int, looks: Mapping[int, RankLook]) -> Standing | None:
        """What the ranks' records tell now; None when nobody waits."""
        return self.judge(now_ns, self.see(now_ns, looks))

    def see(self, now_ns: int, looks: Mapping[int, RankLook]) -> dict[int, RankState]:
        """Every rank by itself."""
        for rank, look in looks.items():
            self._note_counts(rank, look, now_ns)
        self.doing = {rank: self._doing(rank, look, now_ns) for rank, look in looks.items()}
        return {rank: self._state(rank, look, now_ns) for rank, look in looks.items()}

    def judge(self, now_ns: int, states: Mapping[int, RankState]) -> Standing | None:
        """All ranks together, wherever they were seen; None when nobody waits."""
        standing = self._standing(now_ns, states)
        self._learn(standing)
        self._last = standing
        return standing

    def _state(self, rank: int, look: RankLook, now_ns: int) -> RankState:
        what, view = self.doing[rank], look.view
        since = self.waits_since(rank, view) if what is Doing.WAITING else None
        return RankState(what, since, self._stuck(look, what, now_ns), view.in_init, has_rhythm(view))

    def _note_counts(self, rank: int, look: RankLook, now_ns: int) -> None:
        counts = tuple(n for group in look.view.groups for n in (group.enqueued, group.completed))
        if self._counts.get(rank) != counts:
            self._counts[rank] = counts
            self._stood_ns[rank] = max((g.changed_ns for g in look.view.groups), default=now_ns)
            if self._stood_ns[rank] <= 0 or self._stood_ns[rank] > now_ns:
                self._stood_ns[rank] = now_ns

    def _doing(self, rank: int, look: RankLook, now_ns: int) -> Doing:
        view = look.view
        if look.ended_ns is not None or look.state in ("", "Z", "X"):
            return Doing.OVER if view.exiting or view.closed or view.ended else Doing.DEAD
        if look.state == "T":
            return Doing.STOPPED
        if view.identity.armed_ns < 0:
            return Doing.ABSENT
        if view.beat_ns > 0 and view.age_s(now_ns) > SILENT_S:
            return Doing.OVER if view.ended else Doing.BUSY if view.gave_up else Doing.SILENT
        if self.waits_since(rank, view) is not None:
            return Doing.WAITING
        if view.closed or view.exiting:
            return Doing.OVER
        stands = view.since_ns > 0 and now_ns - view.since_ns > 1e9 * STILL_S
        return Doing.IDLE if stands and look.cpu_share < IDLE_SHARE else Doing.BUSY

    def waits_since(self, rank: int, view: RecordView) -> int | None:
        """Monotonic time since when this rank waits; None when it does not."""
        counted = self._stood_ns.get(rank, view.beat_ns)
        if view.wait is not None:
            return view.wait.since_ns  # a guard of ours asks again and again: its stack never stands
        if view.in_init:
            return max(view.identity.armed_ns, view.since_ns)
        stands = max(view.since_ns, counted)
        if view.phase == "communication" or _in_hidden_collective(view):
            return stands
        pending = [group for group in view.groups if group.enqueued > group.completed]
        if not pending:
            return None
        if any(group.backend.startswith("nccl") for group in pending):
            return max(group.changed_ns for group in pending)
        # Gloo may count a failed or passed call as open for ever: only a rank that stands waits.
        return stands if view.phase not in ("data", "save", "log", "eval", "compute") else None

    def _standing(self, now_ns: int, states: Mapping[int, RankState]) -> Standing | None:
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
        return Standing(
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

    def _stuck(self, look: RankLook, what: Doing, now_ns: int) -> bool:
        if what is Doing.IDLE:
            return now_ns - look.view.since_ns > 1e9 * 1.5 * STILL_S
        return what.frozen or what is Doing.OVER

    def _patience_s(
        self, laggards: tuple[int, ...], *, urgent: bool, in_init: bool, doing: Mapping[int, Doing]
    ) -> float:
        if any(doing[rank] in (Doing.STOPPED, Doing.DEAD) for rank in laggards):
            return STILL_S
        if laggards and urgent:
            return max(INIT_S if in_init else STILL_S, min(URGENT_LIMIT_S, self.usual.for_some_s))
        usual = self.usual.for_some_s if laggards else self.usual.together_s
        least = INIT_S if in_init else WORKING_S if laggards else STILL_S
        return max(least, min(USUAL_LIMIT_S, USUAL_TIMES * usual))

    def _learn(self, standing: Standing | None) -> None:
        """An episode that ended by itself tells how long waits of this job are."""
        last = self._last
        if last is None or (standing is not None and abs(standing.since_ns - last.since_ns) < SAME_NS):
            return
        if any(last.doing[rank] in (Doing.STOPPED, Doing.DEAD) for rank in last.laggards):
            return
        if last.laggards:
            self.usual.for_some_s = max(self.usual.for_some_s, last.waited_s)
            if last.rhythm and not any(last.doing[rank].frozen for rank in last.laggards):
                self.usual.for_work_s = max(self.usual.for_work_s, last.waited_s)
        else:
            self.usual.together_s = max(self.usual.together_s, last.waited_s)


def has_rhythm(view: RecordView) -> bool:
    """The rank has done steps, or so many collectives that it must have."""
    return view.steps >= RHYTHM_STEPS or any(group.completed >= RHYTHM_COLLECTIVES for group in view.groups)


def _in_hidden_collective(view: RecordView) -> bool:
    return view.top.function in HIDDEN_COLLECTIVES and any(group.enqueued > group.completed for group in view.groups)
