"""What a signal about two cohorts says of them: who, on which nodes, in which group, where, with what evidence."""

from __future__ import annotations

from typing import Any

from unhang.causes.evidence_lines import calls_of_mismatch, group_label, hosts_of, waiters_call
from unhang.facts.model import CallMismatch, Facts, Stall
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.findings import Call, Grade


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


def grade_of_group(facts: Facts, name: str) -> Grade:
    """What is known of a group's calls rests on: records, lines of logs, or stacks; the weakest of them."""
    group = facts.groups.get(name)
    told = {progress.source_kind for progress in group.progress.values()} if group is not None else set()
    return Grade.STATED if "log" in told else Grade.STACK if "stack" in told else Grade.RECORD
