"""What an answer about a program tells beside place and cause: ways, values of the launch, what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.risks.program.asked import ask

HERE = Path(__file__).parent
PARTING, ONE_RANK, SPLITS = (HERE / "programs" / name for name in ("parting", "work_of_one_rank", "splits"))


def test_both_ways_and_the_way_of_the_launch_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PARTING)

    (found,) = ask("torchrun --nproc_per_node 2 both_ways_are_told.py").findings

    because = " ".join(map(str, found.because)).replace("both_ways_are_told.py", "")
    assert "save (:11) → together (:6) → dist.barrier (ranks.py:10)" in because
    assert "all_reduce (:12)" in because
    assert "call chain: main (:15)" in because
    assert [one.source.line for one in found.evidence][:2] == [10, 11]


@pytest.mark.parametrize("name", ["log_flushed_in_a_loop", "log_flushed_by_a_method"])
def test_remedies_for_a_loop_that_waits_for_its_log(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ONE_RANK)

    (found,) = ask(f"torchrun {name}.py").findings

    assert [str(remedy.title)[:5] for remedy in found.remedies] == ["Log l", "Write", "Write", "Send "]


def test_the_way_that_a_launch_does_not_take_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SPLITS)

    checked = ask("torchrun in_a_branch_of_the_launch.py").checked

    assert any("ratio=0.0 (in_a_branch_of_the_launch.py:6)" in str(fine.what) for fine in checked)


def test_a_way_that_a_configuration_may_choose_is_an_open_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SPLITS)

    verdict = ask("torchrun one_of_several_ways.py")

    assert verdict.findings == ()
    assert any("rows.train_test_split (one_of_several_ways.py:8)" in str(gap.what) for gap in verdict.not_checked)


@pytest.mark.parametrize(
    ("command", "stops"),
    [
        ("--nproc_per_node 8 own_rule.py", False),
        ("--nproc_per_node 6 own_rule.py", True),
        ("--nproc_per_node 8 own_rule.py --num_generations 6", True),
        ("--nproc_per_node 6 own_rule.py --num_generations 3 --gradient_accumulation_steps 5", False),
    ],
)
def test_the_programs_own_rule_with_the_values_of_the_launch(
    command: str, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE / "told")

    verdict = ask(f"torchrun {command}")

    assert [one.subject for one in verdict.findings] == (["own_rule.py:18"] if stops else [])
    said = [str(one.what) for one in verdict.checked] if not stops else [str(verdict.findings[0].because)]
    assert any("whole = args.per_device_train_batch_size * ranks" in text for text in said)


def test_a_rule_whose_values_are_not_known_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "told")

    assert ask("torchrun own_rule.py").findings == ()


def test_cards_by_number_are_answered_with_what_tries_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ONE_RANK)

    (found,) = ask("env CUDA_VISIBLE_DEVICES=6,7,8,9 torchrun first_with_cards_by_number.py").findings

    commands = " ".join(str(remedy.change) for remedy in found.remedies)
    assert "unhang bisect" in commands
    assert "unhang check --only probe" in commands


def test_a_split_that_the_launch_may_run_is_not_called_seeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make = "def load(name):\n    return getattr(rows, name)()\n"
    (tmp_path / "t.py").write_text(f"import sys, torch, rows\nimport torch.distributed as dist\n{make}load(input())\n")
    rows = "class Rows:\n    def setup(self):\n        self.parts = random_split(self.data, [8, 2]{seed})\n"

    (tmp_path / "rows.py").write_text("from torch.utils.data import random_split\n" + rows.format(seed=""))
    verdict = ask("torchrun t.py")
    assert ["random_split (rows.py:4)" in str(gap.what) for gap in verdict.not_checked] == [True]
    assert not any("seed" in str(one.what) for one in verdict.checked)

    (tmp_path / "rows.py").write_text("from torch.utils.data import random_split\n" + rows.format(seed=", generator=g"))
    assert not any("split" in str(gap.what) for gap in ask("torchrun t.py").not_checked)
