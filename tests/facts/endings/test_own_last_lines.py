"""What one rank printed and no other one did, with its place in the program."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.endings.own_last_lines import OwnLine, own_last_lines

CASES = Path(__file__).parents[2] / "cases"
STAGE = CASES / "collective-mismatch" / "hit_a_stage_skips_its_schedule"
"""One output of three processes; no line of it names its rank."""
NAMED = CASES / "rank-conditional-collective" / "hit_left_on_a_metric_of_its_own"
SKIPPED = "step 47: broken label, batch skipped\n"
LEFT = "[rank 2] early stopping at epoch 8\n"


def own_lines(folder: Path, *ranks: int) -> list[OwnLine]:
    return list(own_last_lines(build_facts(read_evidence([str(folder)])), ranks))


def with_log(case: Path, tmp_path: Path, change: Callable[[str], str]) -> Path:
    """The input of ``case`` with another output of the job."""
    shutil.copytree(case / "input", tmp_path / "input")
    log = tmp_path / "input" / "logs" / "launcher.stdout.log"
    log.write_text(change(log.read_text(encoding="utf-8")), encoding="utf-8")
    return tmp_path / "input"


def test_a_line_of_an_output_of_all_is_placed_by_the_statement_that_prints_it() -> None:
    (line,) = own_lines(STAGE / "input", 2)

    assert line.evidence.text == SKIPPED.strip()
    assert line.evidence.rank is None
    assert (line.file, line.line, line.test, line.branch) == ("job.py", 46, "(y < 0).any()", 41)


def test_a_line_that_all_may_have_printed_is_nobodys(tmp_path: Path) -> None:
    assert own_lines(with_log(STAGE, tmp_path, lambda text: text.replace(SKIPPED, SKIPPED * 3)), 2) == []


def test_a_line_from_a_place_that_all_ranks_reach_alike_is_nobodys(tmp_path: Path) -> None:
    only_steps = with_log(STAGE, tmp_path, lambda text: text.replace(SKIPPED, "").replace("step 30", "at 30"))

    assert own_lines(only_steps, 0) == []


def test_a_line_that_names_its_rank_is_that_ranks() -> None:
    (line,) = own_lines(NAMED / "input", 2)

    assert (line.evidence.rank, line.evidence.text) == (2, LEFT.strip())
    assert (line.test, line.jump, line.jump_line) == ("bad >= 3", "break", 28)
    assert own_lines(NAMED / "input", 0) == []


def test_a_line_that_another_rank_prints_as_well_is_nobodys_own(tmp_path: Path) -> None:
    both = with_log(NAMED, tmp_path, lambda text: text.replace(LEFT, LEFT + LEFT.replace("rank 2", "rank 1")))

    assert own_lines(both, 2) == []
