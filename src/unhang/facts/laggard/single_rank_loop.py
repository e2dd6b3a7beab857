"""Whether a rank that waits for a batch runs a loop of its own, a validation for instance, or is late for its step.

Its batch is then none that the others wait for: they wait until the whole loop is through.
"""

from __future__ import annotations

from unhang.facts.model import CodeContext, Facts
from unhang.facts.stacks.activity import activity_of
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.facts.stacks.source_context import line_context
from unhang.program.syntax.syntax_tree import find_source

LOADING_ACTIVITIES = ("dataloader", "dataset-item", "collate", "pin-memory")
"""Waiting in the loader's queue, or (without workers) inside the data set's own reading."""


def runs_own_loop(facts: Facts, laggards: RankCohort, waiters: RankCohort) -> bool:
    """The source shows a loop under a test of the rank that the waiters do not pass; or the rank was seen at other work
    between its batches while the others stood in one call."""
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
