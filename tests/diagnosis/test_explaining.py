"""What explains what is decided in one place; no detector falls silent for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.test_cases import CASES, decide
from unhang.diagnosis.ranking import rank_findings
from unhang.diagnosis.restart import restart_after
from unhang.findings import Cause, Certainty, Ending, Evidence, Finding, Grade, Severity, Source
from unhang.sentences import say

LIKELY, CERTAIN, POSSIBLE = Certainty.LIKELY, Certainty.CERTAIN, Certainty.POSSIBLE
LINE = (Evidence(Source("a.log", 100), "a line"),)


def found(cause: Cause, certainty: Certainty, ranks: tuple[int, ...] = (), **parts: Any) -> Finding:
    return Finding(cause, certainty, Severity.STOPS, say("something"), ranks=ranks, **parts)


def shown(*findings: Finding) -> list[tuple[Cause, tuple[Cause, ...]]]:
    ranked = rank_findings(findings)
    return [(f.cause, tuple(c.cause for c in f.consequences)) for f in ranked]


@pytest.mark.parametrize(
    ("case", "follows"),
    [
        ("uneven-data/hit_log_bars_of_two_lengths", Cause.COLLECTIVE_MISMATCH),
        ("rank-conditional-collective/hit_went_around_a_call_of_its_small_group", Cause.DEADLOCK_ORDER),
    ],
)
def test_what_follows_from_another_way_is_told_as_its_consequence(case: str, follows: Cause) -> None:
    (lead, *others) = decide(CASES / case).findings

    assert follows in {consequence.cause for consequence in lead.consequences}
    assert not [other for other in others if other.cause is follows]


def test_another_way_leads_also_where_the_calls_are_the_more_certain() -> None:
    mismatch = found(Cause.COLLECTIVE_MISMATCH, CERTAIN, (0,), group="tp", grade=Grade.RECORD)
    uneven = found(Cause.UNEVEN_DATA, LIKELY, (1,), group="tp", grade=Grade.SOURCE)

    assert shown(mismatch, uneven) == [(Cause.UNEVEN_DATA, (Cause.COLLECTIVE_MISMATCH,))]


def test_what_is_only_possible_explains_nothing() -> None:
    mismatch = found(Cause.COLLECTIVE_MISMATCH, LIKELY, (0,), group="tp")
    uneven = found(Cause.UNEVEN_DATA, POSSIBLE, (1,), group="tp")

    assert shown(mismatch, uneven) == [(Cause.COLLECTIVE_MISMATCH, ()), (Cause.UNEVEN_DATA, ())]


def test_another_group_is_another_story() -> None:
    mismatch = found(Cause.COLLECTIVE_MISMATCH, CERTAIN, (0,), group="dp")
    uneven = found(Cause.UNEVEN_DATA, LIKELY, (1,), group="tp")

    assert shown(mismatch, uneven) == [(Cause.COLLECTIVE_MISMATCH, ()), (Cause.UNEVEN_DATA, ())]


def test_a_circle_without_the_rank_that_went_around_stays() -> None:
    circle = found(Cause.DEADLOCK_ORDER, CERTAIN, (0, 1))
    gone = found(Cause.RANK_CONDITIONAL_COLLECTIVE, LIKELY, (2,))

    assert shown(circle, gone) == [(Cause.DEADLOCK_ORDER, ()), (Cause.RANK_CONDITIONAL_COLLECTIVE, ())]


def test_who_lost_a_partner_complains_of_the_network() -> None:
    network = found(Cause.NETWORK_FAULT, LIKELY, (3,), evidence=LINE, grade=Grade.ORDER)
    crash = found(Cause.RANK_CRASHED, LIKELY, (0,), grade=Grade.STATED)

    assert shown(network, crash) == [(Cause.RANK_CRASHED, (Cause.NETWORK_FAULT,))]


def test_a_link_that_the_kernel_saw_go_down_follows_from_no_process() -> None:
    network = found(Cause.NETWORK_FAULT, CERTAIN, (3,), evidence=LINE, grade=Grade.KERNEL)
    crash = found(Cause.RANK_CRASHED, LIKELY, (0,), grade=Grade.STATED)

    assert shown(network, crash) == [(Cause.NETWORK_FAULT, ()), (Cause.RANK_CRASHED, ())]


def test_a_suspect_without_evidence_is_nobodys_consequence() -> None:
    network = found(Cause.NETWORK_FAULT, POSSIBLE)
    crash = found(Cause.RANK_CRASHED, LIKELY, (0,))

    assert shown(network, crash) == [(Cause.RANK_CRASHED, ()), (Cause.NETWORK_FAULT, ())]


def test_whoever_ended_the_job_from_outside_saw_what_was_wrong_with_it() -> None:
    cancelled = found(Cause.RANK_CRASHED, LIKELY, ending=Ending.FROM_OUTSIDE, grade=Grade.ORDER)
    crashed = found(Cause.RANK_CRASHED, LIKELY, grade=Grade.STATED)
    network = found(Cause.NETWORK_CONFIG, LIKELY, (1,), grade=Grade.STATED)

    assert shown(cancelled, network) == [(Cause.NETWORK_CONFIG, (Cause.RANK_CRASHED,))]
    assert shown(crashed, network) == [(Cause.RANK_CRASHED, ()), (Cause.NETWORK_CONFIG, ())]


def test_a_node_that_is_cut_off_is_left_out_of_the_next_start() -> None:
    network = found(Cause.NETWORK_FAULT, LIKELY, (1,), nodes=("h2",))

    assert restart_after((replace(network, ending=Ending.CUT_OFF),)).exclude_nodes == ("h2",)
    assert restart_after((network,)).exclude_nodes == ()


def test_a_crash_whose_error_names_a_reason_follows_from_the_cause_that_was_found() -> None:
    crash = found(Cause.RANK_CRASHED, LIKELY, (1,), evidence=LINE, ending=Ending.NAMED)
    meeting = found(Cause.RENDEZVOUS, LIKELY, (1,))

    assert shown(crash, meeting) == [(Cause.RENDEZVOUS, (Cause.RANK_CRASHED,))]
    suspected = replace(meeting, certainty=POSSIBLE)
    assert shown(crash, suspected) == [(Cause.RENDEZVOUS, ()), (Cause.RANK_CRASHED, ())]


def test_a_crash_whose_error_names_a_reason_that_nobody_found_is_told_itself() -> None:
    crash = found(Cause.RANK_CRASHED, LIKELY, (1,), evidence=LINE, ending=Ending.NAMED)

    assert shown(crash) == [(Cause.RANK_CRASHED, ())]
