"""What is ruled out: never the truth, said only of stalls without gaps, and with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_cases import CASES, case_folders, expected, name_of
from unhang.diagnosis.diagnose import diagnose
from unhang.diagnosis.ruled_out import name_contradicted
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Cause, Certainty, NotChecked, RuledOut, Status, Verdict
from unhang.sentences import say


def ruled_out_in(folder: Path, *gaps: NotChecked) -> tuple[RuledOut, ...]:
    """Where no detector finds anything, and only ``gaps`` could not be looked at."""
    facts = build_facts(read_evidence([str(folder / "input")]))
    return name_contradicted(facts, Verdict(Status.UNKNOWN, None, (), (), (), not_checked=gaps)).ruled_out


@pytest.mark.parametrize("folder", [path for path in case_folders() if path.name.startswith("hit_")], ids=name_of)
def test_the_true_cause_is_not_ruled_out_even_when_no_rule_finds_it(folder: Path) -> None:
    answers = ruled_out_in(folder)

    assert expected(folder)["cause"] not in {answer.cause.value for answer in answers}


def test_a_rank_that_works_rules_out_the_way_between_cards_and_says_why() -> None:
    answers = ruled_out_in(CASES / "single-rank-work" / "hit_rank_0_saves")

    because = {answer.cause: str(answer.because) for answer in answers}
    assert "rank 0 never entered" in because[Cause.P2P_BROKEN]
    assert Cause.NETWORK_FAULT not in because, "one machine has none to suspect"
    assert Cause.COLLECTIVE_MISMATCH in because
    assert Cause.RANK_CRASHED in because


@pytest.mark.parametrize("cause", ["network-fault", "gpu-hardware"])
def test_where_everybody_joined_the_network_is_not_ruled_out(cause: str) -> None:
    for folder in (CASES / cause).iterdir():
        answers = ruled_out_in(folder)
        assert Cause.NETWORK_FAULT not in {answer.cause for answer in answers}, folder


def test_with_a_gap_in_the_evidence_nothing_is_ruled_out() -> None:
    gap = NotChecked(say("a rank"), say("nothing of it was given"), caps=Certainty.LIKELY)

    assert ruled_out_in(CASES / "single-rank-work" / "hit_rank_0_saves", gap) == ()


def test_beside_a_certain_finding_nobody_suspects_another_cause() -> None:
    facts = build_facts(read_evidence([str(CASES / "rank-frozen" / "hit_lab_stopped" / "input")]))

    assert diagnose(facts).findings[0].certainty is Certainty.CERTAIN
    assert diagnose(facts).ruled_out == ()


def test_of_a_stall_by_other_ranks_than_those_named_nothing_is_said() -> None:
    folder = CASES / "collective-mismatch" / "hit_a_stage_skips_its_schedule"
    facts = build_facts(read_evidence([str(folder / "input")]))

    assert ruled_out_in(folder), "all wait for ranks 0 and 1, which wait for rank 2"
    assert diagnose(facts).findings[0].ranks == (2,)
    assert diagnose(facts).ruled_out == ()
