"""Causes that the facts contradict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unhang.causes.wording.signals import CPU_BACKENDS
from unhang.diagnosis.grades import certainty_limit
from unhang.facts.alignment.broadcast_roots import partly_finished_call
from unhang.facts.endings.crashes import first_timeouts
from unhang.facts.endings.ended_from_outside import ended_by_user
from unhang.facts.endings.first_timeouts import TimeoutOrder
from unhang.facts.laggard.own_work import is_idle_at_line
from unhang.facts.logs.event_timing import steps_were_made
from unhang.facts.model import CodeContext, Facts, RankFacts, Stall
from unhang.facts.pace.step_slowdown import step_slowdown
from unhang.facts.waiting.progress_from_stacks import in_collective
from unhang.findings import Cause, Certainty, Finding, RuledOut, Verdict
from unhang.knowledge.activities import single_rank_work_words
from unhang.knowledge.reasoning_rows import causes_that
from unhang.sentences import say


def name_contradicted(facts: Facts, verdict: Verdict) -> Verdict:
    """Names causes that somebody would suspect beside the first finding and that the facts contradict, most suspected
    first.

    None where that finding is certain, or names other ranks than the stall; nor where a gap caps every certainty. None
    of them is also found.
    """
    limit = certainty_limit(verdict.not_checked, verdict.unread)
    if limit is not Certainty.CERTAIN:
        return verdict
    lead = verdict.lead
    late = {rank for stall in facts.stalls for rank in stall.laggards}
    if not late or (lead is not None and (lead.certainty is limit or late - set(lead.ranks or late))):
        return verdict
    found = {finding.cause for finding in verdict.findings}
    told = tuple(answer for answer in _contradicted(facts, lead) if answer.cause not in found)
    return replace(verdict, ruled_out=told)


def _contradicted(facts: Facts, lead: Finding | None) -> Iterator[RuledOut]:
    """Of a rank whose stack shows it busy or frozen by itself, nobody thinks that it died or is in another call."""
    yield from _transport(facts)
    if lead is None or lead.cause not in causes_that("work", "takes-a-process"):
        yield from _mismatch(facts)
    if lead is None or lead.cause is Cause.UNKNOWN:
        yield from _crash(facts)
    yield from _frozen(facts)
    if lead is None or lead.cause not in causes_that("work", "takes-a-process"):
        yield from _cycle(facts)


def _transport(facts: Facts) -> Iterator[RuledOut]:
    """Data that was never sent cannot be lost: each laggard's own evidence shows that it is elsewhere. One machine has
    no network to suspect, and processors send nothing past them."""
    if not all(stall.reason == "not-entered" and _has_own_evidence(facts, stall) for stall in facts.stalls):
        return
    late = tuple(sorted({rank for stall in facts.stalls for rank in stall.laggards}))
    because = say("{late:who} never entered the collective the others wait in: no data was in flight", late=late)
    known = facts.ranks.values()
    if len({rank.host for rank in known}) > 1 or not all(rank.host for rank in known):
        yield RuledOut(Cause.NETWORK_FAULT, because)
    if not any(rank.recording is not None and rank.recording.backend in CPU_BACKENDS for rank in known):
        yield RuledOut(Cause.P2P_BROKEN, because)


def _has_own_evidence(facts: Facts, stall: Stall) -> bool:
    group = facts.groups.get(stall.group)
    return group is not None and all(
        rank in group.progress and not group.progress[rank].inferred for rank in stall.laggards
    )


def _mismatch(facts: Facts) -> Iterator[RuledOut]:
    """Every recording reaches the position, and nowhere did two ranks call something else."""
    group = facts.groups.get(facts.stalls[0].group)
    if group is None or facts.mismatches or group.silent or set(group.entries) != set(group.members):
        return
    if partly_finished_call(facts, facts.stalls[0]) is not None:
        return  # no record tells which root each rank named
    if any(in_collective(facts.ranks[rank].activity) for stall in facts.stalls for rank in stall.laggards):
        return  # they are in another call, which no record of the group holds
    yield RuledOut(
        Cause.COLLECTIVE_MISMATCH,
        say("at every recorded position, all ranks of group {group} made the same call", group=group.name),
    )


def _crash(facts: Facts) -> Iterator[RuledOut]:
    everyone = facts.world_size is not None and len(facts.ranks_seen) == facts.world_size
    if everyone and not facts.tracebacks and all(map(_lives_whole, facts.ranks.values())):
        yield RuledOut(Cause.RANK_CRASHED, say("every rank was alive when its stack was taken"))


def _lives_whole(rank: RankFacts) -> bool:
    """The process lives, and what trains in it: it handles no exception, nobody waits to join it, no actor is idle."""
    activity = rank.activity
    if not rank.alive or rank.stack is None or activity is None:
        return False
    return activity.context is not CodeContext.EXCEPT_HANDLER and activity.what not in ("join", "actor-idle")


def _frozen(facts: Facts) -> Iterator[RuledOut]:
    late = tuple(sorted({rank for stall in facts.stalls for rank in stall.laggards}))
    if late and all(rank in facts.ranks and facts.ranks[rank].moving for rank in late):
        yield RuledOut(Cause.RANK_FROZEN, say("{ranks:who} progressed between two samples", ranks=late))


_ASKS = {what for what, kind in single_rank_work_words().items() if kind.asks}
_WAITS_FOR_SOMEBODY = _ASKS | {"lock-wait", "queue-wait", "socket", "join", "child-process"}
"""The other end of these may be a rank that waits for this one; no record tells."""


def _waits_for_somebody(rank: RankFacts) -> bool:
    return is_idle_at_line(rank) or (rank.activity is not None and rank.activity.what in _WAITS_FOR_SOMEBODY)


def _cycle(facts: Facts) -> Iterator[RuledOut]:
    graph = facts.graph
    if any(_waits_for_somebody(facts.ranks[rank]) for rank in graph.roots if rank in facts.ranks):
        return
    seen = all(rank.recording is not None or rank.stack is not None for rank in facts.ranks.values())
    if seen and graph.edges and graph.roots and not graph.cycles:
        yield RuledOut(
            Cause.DEADLOCK_ORDER,
            say("no circular wait: all ranks ultimately wait for {roots:who}", roots=graph.roots),
        )


def excluded_causes(facts: Facts) -> frozenset[Cause]:
    """The causes that cannot be, by the order of time, by who had come, by steps that were made or took longer."""
    grew = frozenset() if step_slowdown(facts) is None else frozenset(Cause) - causes_that("work", "slows-first")
    begun = causes_that("at-start") if steps_were_made(facts) else frozenset()
    joined = frozenset(Cause) - causes_that("below-program") if facts.all_joined_stalls else frozenset()
    return _of_processes(facts) | _of_the_end(facts) | begun | grew | joined


def _of_processes(facts: Facts) -> frozenset[Cause]:
    """All that could be waited for were there when the first limit passed."""
    awaited = {rank for stall in facts.stalls for rank in stall.laggards} or set(range(facts.world_size or 0))
    timeouts = first_timeouts(facts)
    outlived = awaited and all(
        (known := facts.ranks.get(rank)) is not None
        and known.exit is not None
        and timeouts.classify_exit(known.exit, rank) is TimeoutOrder.AFTER
        for rank in awaited
    )
    return causes_that("needs-a-death") if outlived else frozenset()


def _of_the_end(facts: Facts) -> frozenset[Cause]:
    """Somebody ended it, and no rank had ended by itself; in its first call no batch had been drawn either."""
    ended = ended_by_user(facts)
    if ended is None:
        return frozenset()
    if not ended.joined:
        return causes_that("needs-a-death")
    if ended.all_joined:
        return frozenset(Cause) - causes_that("below-program")
    return causes_that("needs-a-death", "needs-progress")
