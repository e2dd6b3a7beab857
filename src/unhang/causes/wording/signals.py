"""Signals as they are put together alike: about ranks that hold a stall up, about two cohorts, from lines of a log, and
about what may carry a collective that all joined and none finished."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from unhang.causes.detector import Signal, make_signal
from unhang.causes.evidence_lines import (
    calls_of_mismatch,
    group_label,
    hosts_of,
    operation_of,
    place_of,
    quote_stall,
    waiters_call,
)
from unhang.evidence.items import LogEvent
from unhang.facts.endings.ended_from_outside import ended_by_user
from unhang.facts.logs.log_statements import hosts_of_events, quote_events, ranks_of_events
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.machine.nccl_reports import chosen_transports
from unhang.facts.model import CallMismatch, Facts, Stall
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.findings import Call, Cause, Consequence, Evidence, Grade
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text

tell = Sentences("causes/shared.toml")


def stall_signal(
    grade: Grade, summary: Text, facts: Facts, stall: Stall, *, ranks: Sequence[int] = (), **parts: Any
) -> Signal:
    """A signal that ``ranks``, else all laggards, hold ``stall`` up: where they stand, and in which call who waits.

    ``more_evidence`` follows the quotes of where they stand.
    """
    ranks = tuple(ranks) or stall.laggards
    told: dict[str, Any] = {
        "ranks": ranks,
        "group": group_label(facts, stall.group),
        "where": place_of(facts, ranks[0]),
        "waiter_where": stall.call.where if stall.call else None,
        "calls": waiters_call(stall.direct_waiters, stall.call),
        "evidence": (*quote_stall(facts, stall), *parts.pop("more_evidence", ())),
    }
    return make_signal(grade, summary, **{**told, **parts})


def waiters_line(stall: Stall) -> tuple[Text, ...]:
    """Who waits in which operation, as a reason; empty where no call is known."""
    if stall.call is None:
        return ()
    return (tell("waits-in", waiters=stall.direct_waiters, operation=operation_of(stall.call)),)


def cohort_parts(facts: Facts, odd: RankCohort, others: RankCohort | None, group: str) -> dict[str, Any]:
    """Finding fields for ``odd``, whom ``others`` wait for, as keyword arguments of ``make_signal``."""
    cohorts = (odd,) if others is None else (odd, others)
    return {
        "ranks": odd.ranks,
        "nodes": hosts_of(facts, odd.ranks),
        "group": group_label(facts, group),
        "phase": odd.phase,
        "where": odd.where,
        "waiter_where": others.where if others is not None else None,
        "evidence": tuple(cohort.evidence for cohort in cohorts if cohort.evidence is not None),
    }


def calls_of_cohorts(divided_by: CallMismatch | Stall) -> tuple[Call, ...]:
    """The calls side by side, or that of those who wait."""
    return (
        calls_of_mismatch(divided_by)
        if isinstance(divided_by, CallMismatch)
        else waiters_call(divided_by.direct_waiters, divided_by.call)
    )


def grade_of_group(facts: Facts, name: str, *, of_stacks: Grade = Grade.STACK) -> Grade:
    """What is known of a group's calls rests on: records, lines of logs, or stacks; the weakest of them."""
    group = facts.groups.get(name)
    told = {progress.source_kind for progress in group.progress.values()} if group is not None else set()
    return Grade.STATED if "log" in told else of_stacks if "stack" in told else Grade.RECORD


MAX_NAMED = 2
"""More ranks than these complain alike for one reason of the machine or the way: they are not to blame."""


def log_signal(grade: Grade, summary: Text, lines: Iterable[LogEvent], *remedies: str, **parts: Any) -> Signal:
    """A signal that ``lines`` make, with these remedies by name; who spoke them is to blame.

    ``more_evidence`` follows their quotes.
    """
    events = tuple(lines)
    told: dict[str, Any] = {
        "ranks": ranks_of_events(events),
        "nodes": hosts_of_events(events),
        "evidence": (*quote_events(events), *parts.pop("more_evidence", ())),
        "remedies": tuple(map(remedy, remedies)),
    }
    return make_signal(grade, summary, **{**told, **parts})


def ranks_if_few(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """``ranks``, or none of them where more than ``MAX_NAMED`` complain alike."""
    return ranks if len(ranks) <= MAX_NAMED else ()


def timeouts_after(facts: Facts, cause: Cause, ranks: Collection[int]) -> tuple[Consequence, ...]:
    """The timeouts of all other ranks as one consequence of ``cause`` on ``ranks``; empty when none is told."""
    logged = logged_waits(facts)
    others = tuple(sorted(logged.rank_set.difference(ranks))) if logged is not None else ()
    if not others:
        return ()
    return (Consequence(cause, others, len(others), tell("waited-in-vain", ranks=others)),)


def chosen_transport_reason(facts: Facts) -> Iterator[Text]:
    """One sentence, where NCCL told."""
    chosen = chosen_transports(facts)
    if chosen is None or not chosen.ways:
        return
    yield tell("ways-with-multicast" if chosen.multicast else "ways", ways=", ".join(chosen.ways))


def transport_evidence(facts: Facts) -> tuple[Evidence, ...]:
    """One line of each way."""
    chosen = chosen_transports(facts)
    return chosen.evidence[:2] if chosen is not None else ()


# Groups that never touch a GPU.
CPU_BACKENDS = {"gloo", "mpi", "ucc"}


def transport_suspect(facts: Facts, test: str, way: str | None = None) -> Iterator[Signal]:
    """A *possible* finding for each call that all joined and none finished, if ``way`` (``NET``, ``P2P``) may carry it,
    or without one the GPUs themselves. ``test``: the remedy that tells more.
    """
    if not _may_carry(facts, way):
        return
    for group in _all_joined(facts):
        yield make_signal(Grade.BASE_RATE, tell("possible"), group=group, remedies=(remedy(test),))


def _all_joined(facts: Facts) -> Iterator[str | None]:
    """The groups; none is known of a call in which somebody ended the job."""
    # Where somebody is behind, groups that look symmetric only wait behind the others.
    yield from (group_label(facts, stall.group) for stall in (() if facts.graph.edges else facts.all_joined_stalls))
    by_hand = ended_by_user(facts)
    if by_hand is not None and by_hand.all_joined:
        yield None


def _may_carry(facts: Facts, way: str | None) -> bool:
    """False for a way that NCCL does not use, as every rank's first lines tell, and for GPUs of a CPU backend."""
    if any(r.recording is not None and r.recording.backend in CPU_BACKENDS for r in facts.ranks.values()):
        return way == "NET"
    chosen = chosen_transports(facts)
    if chosen is None or not chosen.all_told or way is None or chosen.uses(way):
        return True
    return way == "NET" and len({known.host for known in facts.ranks.values()}) > 1
