"""Whether a rank that the others wait for works alone: at work that has a name, in a loop of its own, or not at all."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from unhang.evidence.items import Frame
from unhang.facts.model import CodeContext, Facts, RankFacts, RankState, Stall
from unhang.facts.stacks.activity import activity_of
from unhang.facts.stacks.gil_holders import gil_hold
from unhang.facts.stacks.rank_cohorts import RankCohort, has_left_loop
from unhang.facts.stacks.source_context import line_context
from unhang.facts.stacks.stack_divergence import first_differing_frames
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.facts.waiting.progress_from_stacks import GROUP_CREATION_CALLS
from unhang.findings import Phase, Where
from unhang.knowledge.activities import single_rank_work_words
from unhang.program.syntax.syntax_tree import find_line, find_source

LOADING_ACTIVITIES = ("dataloader", "dataset-item", "collate", "pin-memory")
"""Waiting in the loader's queue, or (without workers) inside the data set's own reading."""
MADE_HERE = ("dataset-item", "collate")
"""Those in which the rank makes the batch itself."""
OWN_LOOP = "own-loop"
_NO_WORK = {"collective", "dataloader-wait", "teardown", "join", "store-wait", *GROUP_CREATION_CALLS}


@dataclass(frozen=True, slots=True)
class UnreturnedCall:
    """A call of the user's own code that every look found and that the others are not in: it has to return before the
    rank can come to them. The innermost one where all its lines stayed as they were, else the outermost."""

    where: Where
    """In the function that was called."""
    called_at: str
    in_while: bool
    """A ``while`` loop is around that line: nothing but its test ends it."""
    stays: bool
    """Every look found it at that very line."""
    keeps_lock: bool
    """And no other thread of the rank ran in between, so that it is one call that has not returned."""


@dataclass(frozen=True, slots=True)
class Work:
    """What ``cohort`` is busy with; ``inside`` is asked for where its name says nothing of whether it ends."""

    cohort: RankCohort
    inside: UnreturnedCall | None

    @property
    def stands(self) -> bool:
        """They do not get on: they ask again and again, or one call at one line lets no other thread run."""
        return self.cohort.stack_context.polled is not None or (self.inside is not None and self.inside.keeps_lock)


@dataclass(frozen=True, slots=True)
class OwnWork(Work):
    """They do something that only they do, in ``cohort`` with ``OWN_LOOP`` for a loop over batches. ``moving``: their
    stacks move between two samples."""

    moving: bool

    @property
    def named(self) -> bool:
        """The library they are in says what they do."""
        return _is_named(self.cohort)


@dataclass(frozen=True, slots=True)
class AsleepAtLine:
    """Every sample found them asleep at one line of their own, in nothing that has a name."""

    cohort: RankCohort


def own_work(facts: Facts, stall: Stall, laggards: RankCohort, waiters: RankCohort) -> OwnWork | AsleepAtLine | None:
    """None where they wait as well, are past the loop, too many, or their stacks do not tell."""
    if not _can_work(facts, stall):
        return None
    if laggards.what.startswith(LOADING_ACTIVITIES) and runs_own_loop(facts, laggards, waiters):
        laggards = replace(laggards, what=OWN_LOOP, phase=Phase.OTHER)
    elif not _is_work(facts, stall, laggards) or has_left_loop(laggards, waiters):
        return None
    asks = laggards.stack_context.polled or laggards.stack_context.tried_again
    if not asks and all(is_idle_at_line(facts.ranks[rank]) for rank in laggards.ranks):
        return AsleepAtLine(laggards)
    told = asks or _is_named(laggards) or laggards.what == "sleep"
    inside = None if told else unreturned_call(facts, laggards, waiters)
    return OwnWork(laggards, inside, any(facts.ranks[rank].moving for rank in stall.laggards))


def _is_named(cohort: RankCohort) -> bool:
    known = cohort.what in single_rank_work_words() or cohort.what == OWN_LOOP
    return known and cohort.what not in ("compute", "sleep")


def unreturned_call(facts: Facts, laggards: RankCohort, waiters: RankCohort) -> UnreturnedCall | None:
    """None where there is one look, or the stacks do not tell."""
    looks = [activity_of(stack, facts.sources)[0] for stack in facts.ranks[laggards.ranks[0]].earlier_stacks]
    seen = [_python(look.frames) if look is not None else () for look in looks]
    parted = first_differing_frames(laggards.frames, waiters.frames)
    if parted is None or not seen:
        return None
    frames = _python(laggards.frames)
    inner = frames[: frames.index(parted[0])]
    own = [index for index, frame in enumerate(inner) if is_user_frame(frame, facts.sources)]
    if not own or not all(_is_in_call(then, frames[own[-1] :]) for then in seen):
        return None
    stays = all(then[own[0] - len(frames) :] == frames[own[0] :] for then in seen)
    calls = [*(frames[index] for index in own), parted[0]]
    call, caller = calls[:2] if stays else calls[-2:]
    place = find_line(facts.sources, call.file, call.line)
    levels = place.levels if place is not None else ()
    turns = any(level.part == "body" and isinstance(level.owner, ast.While) for level in levels)
    keeps_lock = stays and facts.ranks[laggards.ranks[0]].process.beats is False
    where = Where(call.file, call.line, call.function)
    return UnreturnedCall(where, f"{caller.file}:{caller.line}", turns, stays, keeps_lock)


def _python(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """C frames are in only some of the looks."""
    return tuple(frame for frame in frames if not frame.native)


def _is_in_call(then: Sequence[Frame], path: Sequence[Frame]) -> bool:
    """Whether the stack was in the call of ``path``, at any of its lines, by the same calls."""
    call, outer = path[0], tuple(path[1:])
    if len(then) <= len(outer) or tuple(then[len(then) - len(outer) :]) != outer:
        return False
    was = then[-len(outer) - 1]
    return (was.file, was.function) == (call.file, call.function)


def is_idle_at_line(known: RankFacts) -> bool:
    """Asleep at one user line in every sample, in no collective and in no work or wait that has a name: it waits for
    what a library in C, or the system, does not give it."""
    activity = known.activity
    if activity is None or activity.where is None or known.moving is not False or known.process_state != "S":
        return False
    if activity.thread is not None and activity.thread.active:
        return False  # py-spy saw it on a processor
    return activity.phase is not Phase.COMMUNICATION and activity.what not in single_rank_work_words()


def _can_work(facts: Facts, stall: Stall) -> bool:
    """Alive, seen, in no call that does not fit the others', and few: work of most ranks is not work of one."""
    at_work = {rank for other in facts.stalls if other.group == stall.group for rank in other.laggards}
    if len(at_work) > max(1, len(stall.waiters)):
        return False
    known = [facts.ranks[rank] for rank in stall.laggards]
    if any(one.activity is None or one.stack is None or not one.was_seen_alive for one in known):
        return False
    if any(one.state is RankState.STOPPED or gil_hold(facts, one) is not None for one in known):
        return False
    disputed = any(mismatch.group == stall.group for mismatch in facts.mismatches)
    waits = (facts.groups[stall.group].pending(rank) is not None for rank in stall.laggards)
    return not (disputed and any(waits))


def _is_work(facts: Facts, stall: Stall, laggards: RankCohort) -> bool:
    """It waits for no data, does not end or handle an exception, and is in no communication."""
    if laggards.where is None and laggards.what not in single_rank_work_words():
        return False  # a thread without a line of the program, in nothing that is known as work
    # On a processor when it was sampled, it computes, although both samples fell on one line.
    computes = any(facts.ranks[rank].moving or facts.ranks[rank].process_state == "R" for rank in stall.laggards)
    if laggards.what == "native" and not computes:
        return False
    if laggards.what in _NO_WORK or laggards.phase in (Phase.SHUTDOWN, Phase.COMMUNICATION):
        return False
    if laggards.what == "backward" and stall.reason in ("silent", "dead"):
        return False  # no record of its collectives: its hooks may have issued one that does not fit the others'
    loads = laggards.phase is Phase.DATA and laggards.what.startswith(LOADING_ACTIVITIES)
    return not loads and laggards.context is not CodeContext.EXCEPT_HANDLER


def runs_own_loop(facts: Facts, laggards: RankCohort, waiters: RankCohort) -> bool:
    """Whether ranks that wait for a batch run a loop of their own, a validation for instance, which the others wait
    for as a whole: the source shows a loop under a test of the rank that the waiters do not pass; or a rank was seen at
    other work between its batches while the others stood in one call."""
    if _loops_under_a_test(facts, laggards, waiters):
        return True
    stand = all(facts.ranks[rank].moving is False for rank in waiters.ranks)
    return stand and all(_got_its_batch(facts, rank) for rank in laggards.ranks)


def _loops_under_a_test(facts: Facts, laggards: RankCohort, waiters: RankCohort) -> bool:
    decides, branch = laggards.stack_context.where, laggards.stack_context.branch
    if laggards.context is not CodeContext.RANK_BRANCH or decides is None or branch is None:
        return False
    if waiters.stack_context.branch == branch and waiters.context is CodeContext.RANK_BRANCH:
        return False
    for frame in laggards.frames:  # innermost first, up to the function with the test
        source = find_source(facts.sources, frame.file) if frame.line is not None else None
        if source is None or frame.line is None:
            continue
        loop = line_context(source, frame.line, function=frame.function).loop
        if (frame.file, frame.line) == (decides.file, decides.line):
            return loop is not None and loop.line > branch.line
        if loop is not None:
            return True
    return False


def _got_its_batch(facts: Facts, rank: int) -> bool:
    known = facts.ranks[rank]
    looks = [activity_of(stack, facts.sources)[0] for stack in known.earlier_stacks]
    return bool(known.moving) and any(
        look is not None and not look.what.startswith(LOADING_ACTIVITIES) for look in looks
    )
