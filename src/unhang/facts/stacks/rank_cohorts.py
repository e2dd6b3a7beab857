"""Cohorts of one stall: ranks at one call site of the user's program.

The laggards' cohort and the waiters' cohort decide between causes: past the loop against inside it, inside a branch on
the rank against outside, or another call at the same place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from unhang.evidence.items import Frame
from unhang.facts.model import CallMismatch, CodeContext, Facts, PendingCall, Stall
from unhang.facts.stacks.source_context import StackContext, stack_context
from unhang.facts.stacks.stack_divergence import common_block, first_differing_frames
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Evidence, Phase, Where
from unhang.knowledge.activities import row_of_frame
from unhang.program.rank_dependence.value_for_rank import singled_out_ranks, test_value
from unhang.program.syntax.syntax_tree import find_line

_LEAVE = ("break", "return", "exit")
_STEP = {"backward", "forward", "optimizer"}
_NEGATED = {"else", "return", "continue", "break", "raise", "exit"}


@dataclass(frozen=True, slots=True)
class RankCohort:
    """Ranks at one place of the program, and what they do there."""

    ranks: tuple[int, ...]
    where: Where | None
    stack_context: StackContext
    what: str
    phase: Phase | None
    call: PendingCall | None
    ended: bool
    """These ranks have ended with exit code 0."""
    evidence: Evidence | None
    frames: tuple[Frame, ...] = ()

    @property
    def context(self) -> CodeContext:
        """Where that place stands in the program."""
        return self.stack_context.context

    @property
    def branch_line(self) -> int | None:
        """Line of the branch on the rank that leads here."""
        return self.stack_context.branch.line if self.stack_context.branch is not None else None

    @property
    def loop_line(self) -> int | None:
        """Line of the loop around this place."""
        return self.stack_context.loop.line if self.stack_context.loop is not None else None


def cohorts_of_stall(facts: Facts, stall: Stall) -> tuple[RankCohort, RankCohort]:
    """(laggards, direct waiters)."""
    laggards = _cohort(facts, stall.laggards, None)
    waiters = _cohort(facts, stall.direct_waiters, stall.call)
    return laggards, _ignore_jumps_of_others(waiters, laggards.ranks)


def cohorts_of_mismatch(facts: Facts, mismatch: CallMismatch, *, went_on: bool = False) -> tuple[RankCohort, ...]:
    """One cohort per call site or signature, biggest first (ties by lowest rank). ``went_on``: the ranks left these
    calls, and where they are now is not where they made them."""
    by_place: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for signature, ranks in mismatch.calls.items():
        for rank in ranks:
            call = mismatch.pending.get(rank)
            where = call.where if call is not None else None
            by_place[signature, where].append(rank)
    for rank in mismatch.aborted:
        by_place["aborted", None].append(rank)
    cohorts = [
        _cohort(facts, tuple(sorted(r)), mismatch.pending.get(min(r)), went_on=went_on) for r in by_place.values()
    ]
    cohorts = [_mark_past_loop(facts, c, cohorts) for c in cohorts]
    past = [c for c in cohorts if c.context is CodeContext.AFTER_LOOP]
    if len(past) == 1:
        cohorts = [c if c is past[0] else _ignore_jumps_of_others(c, past[0].ranks) for c in cohorts]
    return tuple(sorted(cohorts, key=lambda c: (-len(c.ranks), c.ranks)))


def cohort_outside_library(facts: Facts, cohorts: tuple[RankCohort, ...]) -> RankCohort | None:
    """The one cohort at a line of its own while all others are inside a library call below a shared line
    (``trainer.fit()``), or in a call of a library's own thread, as the gradient all-reduce of DDP. None where several
    are at lines of their own, or none is, or where some are is not known."""
    own = [
        c
        for c in cohorts
        if (at := c.where) is not None
        and not any((f.file, f.line) == (at.file, at.line) for o in cohorts if o is not c for f in o.frames)
    ]
    known = all(cohort.frames or _records_frames(facts, cohort) for cohort in cohorts)
    return own[0] if len(own) == 1 and known else None


def _records_frames(facts: Facts, cohort: RankCohort) -> bool:
    """Other calls of its recorder have frames: one that has none was made by a thread without Python."""
    recordings = (facts.ranks[rank].recording for rank in cohort.ranks if rank in facts.ranks)
    return any(recording is not None and any(recording.entries.stacks) for recording in recordings)


def cohort_past_shared_call(facts: Facts, cohorts: tuple[RankCohort, ...]) -> tuple[RankCohort, int] | None:
    """The one cohort past the call in which the others still are, and the line of that call: of one block,
    ``trainer.fit()`` and, below it, ``trainer.save_checkpoint()``. None where none is."""
    for cohort in cohorts:
        passed = [_line_passed(facts, cohort, other) for other in cohorts if other is not cohort]
        if passed and passed[0] is not None and all(passed):
            return cohort, passed[0]
    return None


def is_path_unknown(facts: Facts, cohorts: tuple[RankCohort, ...]) -> bool:
    """Calls at different places, and of some rank no source: a loop that ended early or a branch may lead there."""
    places = {cohort.where for cohort in cohorts}
    activities = (facts.ranks[rank].activity for cohort in cohorts for rank in cohort.ranks if rank in facts.ranks)
    contexts = (*(cohort.context for cohort in cohorts), *(known.context for known in activities if known is not None))
    return len(places) > 1 and CodeContext.NO_SOURCE in contexts


def _line_passed(facts: Facts, cohort: RankCohort, other: RankCohort) -> int | None:
    """The line of ``other`` that ``cohort`` stands below; None in a loop, where ``other`` may be an iteration ahead."""
    parted = first_differing_frames(cohort.frames, other.frames)
    if parted is None or stack_context(cohort.frames[cohort.frames.index(parted[0]) :], facts.sources).loop is not None:
        return None
    return parted[1].line if _below(facts, parted[1], parted[0]) else None


def _mark_past_loop(facts: Facts, cohort: RankCohort, cohorts: list[RankCohort]) -> RankCohort:
    """``cohort`` as past the loop, where it stands below the call of a function in whose loop of steps others are:
    ``train_epoch(loader)`` and, below it, ``dist.barrier()``."""
    if cohort.context not in (CodeContext.INSIDE_LOOP, CodeContext.PLAIN):
        return cohort
    for other in cohorts:
        loop, at = other.stack_context.loop, other.stack_context.where
        parted = first_differing_frames(cohort.frames, other.frames)
        if other.context is not CodeContext.INSIDE_LOOP or loop is None or not loop.makes_steps or parted is None:
            continue
        mine, theirs = parted
        inner = at is not None and (at.file, at.line) != (theirs.file, theirs.line)
        here = cohort.stack_context.where
        alone = here is None or here.line == mine.line  # in no loop of steps of its own
        if inner and alone and _below(facts, theirs, mine):
            past = replace(cohort.stack_context, context=CodeContext.AFTER_LOOP, after=loop)
            return replace(cohort, stack_context=past)
    return cohort


def _below(facts: Facts, above: Frame, below: Frame) -> bool:
    first, second = (find_line(facts.sources, above.file, frame.line) for frame in (above, below))
    return first is not None and second is not None and common_block(first, second) is not None


def _ignore_jumps_of_others(cohort: RankCohort, gone: tuple[int, ...]) -> RankCohort:
    """``cohort`` as inside its loop, where the jump on the rank before it lets none of the ranks ``gone`` out."""
    branch = cohort.stack_context.branch
    if cohort.context is not CodeContext.RANK_BRANCH or branch is None or branch.kind not in _LEAVE or not gone:
        return cohort
    if cohort.stack_context.loop is None or any(test_value(branch.test, rank, None) is not False for rank in gone):
        return cohort
    return replace(cohort, stack_context=replace(cohort.stack_context, context=CodeContext.INSIDE_LOOP, branch=None))


def split_by_loop(cohorts: tuple[RankCohort, ...]) -> tuple[RankCohort, RankCohort] | None:
    """(past the loop, inside it) when the cohorts divide that way and no branch on the rank explains it."""
    if any(c.context is CodeContext.RANK_BRANCH for c in cohorts):
        return None
    past = [c for c in cohorts if c.context is CodeContext.AFTER_LOOP]
    inside = [c for c in cohorts if c.context is CodeContext.INSIDE_LOOP]
    if len(past) == 1 and inside:
        return past[0], inside[0]
    return None


def has_left_loop(laggards: RankCohort, waiters: RankCohort) -> bool:
    """The laggards have left the loop in which the waiters wait."""
    if CodeContext.RANK_BRANCH in (laggards.context, waiters.context) or laggards.context is CodeContext.EXCEPT_HANDLER:
        return False
    left = laggards.ended or laggards.phase is Phase.SHUTDOWN
    left = left or (laggards.context is CodeContext.AFTER_LOOP and not _may_be_iteration_behind(laggards))
    return (
        left
        and waiters.context in (CodeContext.INSIDE_LOOP, CodeContext.NO_SOURCE)
        and waiters.phase is not Phase.SHUTDOWN
    )


def _may_be_iteration_behind(laggards: RankCohort) -> bool:
    """It does something of its own behind the loop, and a loop around both leads back into it: it may be a round behind
    as well, and the others in the next epoch already."""
    around, after = laggards.stack_context.loop, laggards.stack_context.after
    returns = around is not None and after is not None and around.line < after.line
    return returns and laggards.phase is not Phase.COMMUNICATION


def is_minority_inside(inside: RankCohort, outside: RankCohort, world_size: int | None = None) -> bool:
    """Those inside the branch are the few: they call what the others never call.

    The test tells it where it singles out some ranks of the job, also when not all ranks were seen. Else the smaller
    cohort is odd; with as many inside as outside, a test for inequality (``rank != 1``) means to leave somebody out,
    any other to let somebody in.
    """
    branch = inside.stack_context.branch
    odd = singled_out_ranks(branch.test, world_size) if branch is not None else frozenset()
    if odd and len({odd.issuperset(inside.ranks), odd.issuperset(outside.ranks)}) == 2:
        return odd.issuperset(inside.ranks) and not odd & set(outside.ranks)
    if len(inside.ranks) != len(outside.ranks):
        return len(inside.ranks) < len(outside.ranks)
    return branch is None or "!=" not in branch.test


def branch_excludes(inside: RankCohort, ranks: Sequence[int], world_size: int | None) -> bool:
    """The branch around ``inside`` keeps ``ranks`` out, as far as its test can be worked out; True when it cannot."""
    branch = inside.stack_context.branch
    if branch is None:
        return False
    for rank in ranks:
        allowed = test_value(branch.test, rank, world_size)
        if allowed is None:
            continue
        if allowed is (branch.kind not in _NEGATED):
            return False
    return True


def makes_step(frame: Frame) -> bool:
    """It is a library's part of every step."""
    row = row_of_frame(frame.function, frame.file, native=False) if not frame.native else None
    return row is not None and row.what in _STEP


def _cohort(facts: Facts, ranks: tuple[int, ...], call: PendingCall | None, *, went_on: bool = False) -> RankCohort:
    first = facts.ranks.get(min(ranks)) if ranks else None
    activity = first.activity if first is not None else None
    frames: tuple[Frame, ...] = ()
    if call is not None and call.stack:
        frames = call.stack
    elif activity is not None and not went_on:
        frames = activity.frames
    where = first_user_frame(frames) or (call.where if call else None)
    evidence = call.evidence if call is not None else activity.evidence if activity is not None else None
    return RankCohort(
        ranks=ranks,
        where=where,
        stack_context=stack_context(frames, facts.sources),
        what=activity.what if activity is not None else "",
        phase=activity.phase if activity is not None else None,
        call=call,
        ended=bool(ranks) and all(rank in facts.ranks and facts.ranks[rank].ended_well for rank in ranks),
        evidence=evidence,
        frames=frames,
    )
