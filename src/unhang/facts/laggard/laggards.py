"""What the ranks that the others wait for are doing: decided here, once for each stall, for everybody who asks.

:func:`_doing` is the order in which it is asked: what stands further down may be true as well, and explains less.
A detector takes the answer that speaks of its cause (:func:`laggards_doing`), and asks nothing that speaks of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from unhang.facts.divergence.branch_division import BranchDivision, division_of_stall, divisions_of_mismatches
from unhang.facts.divergence.early_loop_exit import EarlyLoopExit, exit_of_stall, exits_of_mismatches
from unhang.facts.laggard.own_threads import JoinsWaitingThread, joins_waiting_thread
from unhang.facts.laggard.own_work import (
    LOADING_ACTIVITIES,
    MADE_HERE,
    AsleepAtLine,
    OwnWork,
    Work,
    own_work,
    runs_own_loop,
    unreturned_call,
)
from unhang.facts.laggard.uneven_generation import LongerGeneration, longer_generation
from unhang.facts.laggard.waits_on_others import (
    ActorWait,
    FileLockCycle,
    UnsetKey,
    actor_wait,
    file_lock_cycle,
    unset_key,
)
from unhang.facts.model import CodeContext, Facts, RankState, Stall, once
from unhang.facts.stacks.child_processes import stopped_children
from unhang.facts.stacks.gil_holders import GilHold, gil_hold
from unhang.facts.stacks.rank_cohorts import RankCohort, cohorts_of_stall, has_left_loop
from unhang.facts.waiting.guard_waits import GUARD_WAIT, awaited_guard
from unhang.findings import Phase, Where
from unhang.wire.documents.bundle import LiveChild


@dataclass(frozen=True, slots=True)
class Stopped:
    """``ranks`` are in process state T, or ``children`` of theirs that they wait for: they execute nothing."""

    ranks: tuple[int, ...]
    children: tuple[LiveChild, ...] = ()


@dataclass(frozen=True, slots=True)
class HoldsInterpreter:
    """A thread of each of these ranks keeps the interpreter lock in native code."""

    holds: Mapping[int, GilHold]


@dataclass(frozen=True, slots=True)
class HandlesException:
    """``ranks`` stand in an exception handler: they failed, and keep the process alive."""

    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IdleActor:
    """Actors without a call: the last one has ended."""


@dataclass(frozen=True, slots=True)
class WithoutStep:
    """Workers of a serving engine that wait for it to hand them a step: they did theirs, or were given none."""


@dataclass(frozen=True, slots=True)
class InGuard:
    """They wait in ``guard``, on the store, for ranks that are in a collective."""

    guard: str
    others_work_in_it: bool
    """Those in the collective are the ones that work in the block of the guard."""


@dataclass(frozen=True, slots=True)
class MadeFewerGroups:
    """Those on one side make one group more, which needs every rank of the job, and the others are in a collective."""


@dataclass(frozen=True, slots=True)
class AwaitsBatch(Work):
    """They wait for the next batch of the loop of steps, or make it themselves ``inside`` of that call."""


Doing = (
    Stopped
    | HoldsInterpreter
    | ActorWait
    | FileLockCycle
    | UnsetKey
    | JoinsWaitingThread
    | HandlesException
    | IdleActor
    | WithoutStep
    | InGuard
    | BranchDivision
    | EarlyLoopExit
    | MadeFewerGroups
    | LongerGeneration
    | AwaitsBatch
    | OwnWork
    | AsleepAtLine
)
_Doing = TypeVar("_Doing")


@dataclass(frozen=True, slots=True)
class Laggards:
    """The laggards of ``stall``, and who waits for them. ``doing``: None where nothing tells."""

    stall: Stall
    cohort: RankCohort
    waiters: RankCohort
    doing: Doing | None


def laggards_doing(facts: Facts, kind: type[_Doing]) -> Iterator[tuple[Laggards, _Doing]]:
    """Laggards that do something of this kind, with what they do."""
    yield from ((one, one.doing) for one in laggards_of(facts) if isinstance(one.doing, kind))


def early_loop_exits(facts: Facts) -> Iterator[EarlyLoopExit]:
    """Of every mismatch of calls and every stall."""
    yield from exits_of_mismatches(facts)
    yield from (left for _, left in laggards_doing(facts, EarlyLoopExit))


def branch_divisions(facts: Facts) -> Iterator[BranchDivision]:
    """Of every mismatch of calls and every stall."""
    yield from divisions_of_mismatches(facts)
    yield from (divided for _, divided in laggards_doing(facts, BranchDivision))


@once
def laggards_of(facts: Facts) -> tuple[Laggards, ...]:
    """Of every stall, in its order."""
    found = []
    for stall in facts.stalls:
        cohort, waiters = cohorts_of_stall(facts, stall)
        found.append(Laggards(stall, cohort, waiters, _doing(facts, stall, cohort, waiters)))
    return tuple(found)


def _doing(facts: Facts, stall: Stall, cohort: RankCohort, waiters: RankCohort) -> Doing | None:
    """Asked from the top; the first that answers is what they do."""
    return (
        # nothing in it runs
        _stopped(facts, stall)
        or _holds_interpreter(facts, stall)
        # it waits for one of those that wait for it, or for itself
        or actor_wait(facts, stall)
        or file_lock_cycle(facts, stall)
        or unset_key(facts, stall)
        or joins_waiting_thread(facts, stall)
        # it failed, or has nothing more to do
        or _handles_exception(facts, stall)
        or _all_idle(facts, stall, "actor-idle", IdleActor())
        or _all_idle(facts, stall, "engine-idle", WithoutStep())
        # it took another way through the program than the others
        or _in_guard(facts, cohort, waiters)
        or division_of_stall(facts, stall, cohort, waiters)
        or exit_of_stall(facts, stall, cohort, waiters)
        or _made_fewer_groups(facts, stall, cohort)
        # it is on its way to the others
        or longer_generation(facts, stall)
        or _awaits_batch(facts, cohort, waiters)
        or own_work(facts, stall, cohort, waiters)
    )


def _stopped(facts: Facts, stall: Stall) -> Stopped | None:
    ranks = tuple(rank for rank in stall.laggards if facts.ranks[rank].state is RankState.STOPPED)
    if ranks:
        return Stopped(ranks)
    children = tuple(child for rank in stall.laggards for child in stopped_children(facts.ranks[rank]))
    return Stopped(stall.laggards, children) if children else None


def _holds_interpreter(facts: Facts, stall: Stall) -> HoldsInterpreter | None:
    holds = {rank: hold for rank in stall.laggards if (hold := gil_hold(facts, facts.ranks[rank])) is not None}
    return HoldsInterpreter(holds) if holds else None


def _handles_exception(facts: Facts, stall: Stall) -> HandlesException | None:
    activities = [(rank, facts.ranks[rank].activity) for rank in stall.laggards]
    ranks = tuple(rank for rank, a in activities if a is not None and a.context is CodeContext.EXCEPT_HANDLER)
    return HandlesException(ranks) if ranks else None


def _all_idle(facts: Facts, stall: Stall, what: str, idle: _Doing) -> _Doing | None:
    activities = [facts.ranks[rank].activity for rank in stall.laggards]
    return idle if all(a is not None and a.what == what for a in activities) else None


def _in_guard(facts: Facts, cohort: RankCohort, waiters: RankCohort) -> InGuard | None:
    if cohort.what != GUARD_WAIT or has_left_loop(cohort, waiters):
        return None
    guard = awaited_guard(facts.ranks[cohort.ranks[0]])
    marked = any(facts.ranks[rank].process.marked is not None for rank in waiters.ranks)
    return InGuard(
        guard, guard.startswith("unhang.rank_zero_first") and (marked or _is_below(cohort.where, waiters.where))
    )


def _is_below(above: Where | None, below: Where | None) -> bool:
    if above is None or below is None or above.line is None or below.line is None:
        return False
    return above.file == below.file and below.line > above.line


def _made_fewer_groups(facts: Facts, stall: Stall, cohort: RankCohort) -> MadeFewerGroups | None:
    making = stall.call is not None and stall.call.operation == "new_group"
    if making or cohort.what != "group-setup":
        return MadeFewerGroups() if making and cohort.phase is Phase.COMMUNICATION else None
    stuck = all(facts.ranks[rank].moving is False for rank in cohort.ranks)
    return MadeFewerGroups() if stuck and stall.call is not None else None


def _awaits_batch(facts: Facts, cohort: RankCohort, waiters: RankCohort) -> AwaitsBatch | None:
    alive = all(facts.ranks[rank].was_seen_alive for rank in cohort.ranks)
    loads = cohort.phase is Phase.DATA and cohort.what.startswith(LOADING_ACTIVITIES)
    if not loads or not alive or runs_own_loop(facts, cohort, waiters):
        return None
    return AwaitsBatch(cohort, unreturned_call(facts, cohort, waiters) if cohort.what in MADE_HERE else None)
