"""What stands over the place of a finding says no more than the evidence does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.report.shown_places import shown_places

CASES = Path(__file__).parents[1] / "cases"


@pytest.mark.parametrize(
    ("case", "headings"),
    [
        ("deadlock-order/hit_lab_p2p_cycle", ["Ranks 0-2 are here"]),
        ("rank-crashed/hit_actor_idle_after_its_method_raised", ["Rank 1 was last seen here"]),
        ("rank-conditional-collective/hit_a_key_nobody_sets", ["Look at this line", "The other ranks wait here"]),
        (
            "rank-conditional-collective/hit_key_of_a_signal_at_the_store",
            ["Rank 1 is here", "The other ranks wait here"],
        ),
    ],
)
def test_it_is_said_whether_the_ranks_stand_there(case: str, headings: list[str]) -> None:
    facts = build_facts(read_evidence([str(CASES / case / "input")]))

    assert [str(who) for who, _ in shown_places(diagnose(facts).findings[0], facts)] == headings


def test_of_ranks_at_one_line_only_those_are_named_whose_stack_shows_it() -> None:
    case = "rank-conditional-collective/hit_key_of_a_signal_at_the_store"
    facts = build_facts(read_evidence([str(CASES / case / "input")]))
    (finding, *_) = diagnose(facts).findings

    others = replace(finding, ranks=(1, 90, 91), waiter_where=None)
    unseen = replace(facts, ranks={**facts.ranks, **{rank: replace(facts.ranks[1], rank=rank) for rank in (90, 91)}})
    blind = {rank: replace(unseen.ranks[rank], stack=None, earlier_stacks=(), activity=None) for rank in (90, 91)}

    assert [str(who) for who, _ in shown_places(others, replace(unseen, ranks={**unseen.ranks, **blind}))] == [
        "Rank 1 is here"
    ]
    assert [str(who) for who, _ in shown_places(others, unseen)] == ["Ranks 1, 90, 91 are here"]
