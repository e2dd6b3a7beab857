"""Sends and receives are paired by partner; their positions are each rank's own and never compared."""

from __future__ import annotations

from tests.facts.jobs import call, job, recording
from unhang.facts.build import build_facts

WORLD = {"0": range(4)}


def test_a_send_and_a_receive_at_one_position_are_no_disagreement() -> None:
    facts = build_facts(
        job(
            recording(0, [call(7, "recv 0<-2", state="scheduled", is_p2p=True)], groups=WORLD),
            recording(1, [call(7, "recv 1<-3", state="scheduled", is_p2p=True)], groups=WORLD),
            recording(2, [call(7, "send 2->0", state="scheduled", is_p2p=True)], groups=WORLD),
            recording(3, [call(6, "send 3->1", state="completed", is_p2p=True)], groups=WORLD),
        )
    )

    assert facts.mismatches == ()
    assert facts.graph.roots == (3,)


def test_two_ranks_that_receive_from_each_other_wait_in_a_circle() -> None:
    pair = {"0": range(2)}
    facts = build_facts(
        job(
            recording(0, [call(3, "recv 0<-1", state="scheduled", is_p2p=True)], groups=pair),
            recording(1, [call(3, "recv 1<-0", state="scheduled", is_p2p=True)], groups=pair),
        )
    )

    assert facts.graph.cycles == ((0, 1),)


def test_partners_that_have_found_each_other_wait_for_nobody() -> None:
    pair = {"0": range(2)}
    facts = build_facts(
        job(
            recording(0, [call(3, "recv 0<-1", state="scheduled", is_p2p=True)], groups=pair),
            recording(1, [call(9, "send 1->0", state="scheduled", is_p2p=True)], groups=pair),
        )
    )

    assert facts.graph.edges == ()
