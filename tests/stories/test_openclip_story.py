"""openclip: rank 0 validates alone, and the others wait for it in the first collective of the next epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unhang_lab.stories.moments import tell_after, tell_before, tell_fixed
from unhang_lab.stories.recorded_run import RecordedRun
from unhang_lab.stories.story import Story

STORY = "openclip"
pytestmark = [pytest.mark.job, pytest.mark.timeout(400)]
Record = Callable[[Story], RecordedRun]


def test_before_check_names_the_crowded_card_and_nothing_of_the_driver(story: Story) -> None:
    cell = tell_before(story)

    assert cell.right, cell.steps
    said = (cell.steps[0].verdict or {})["findings"]
    assert [finding["subject"] for finding in said] == ["card 5"]  # the old CUDA of the thread stops nothing


def test_during_run_names_rank_0_at_work_while_the_others_wait_in_the_next_epoch(
    story: Story, recorded: Record
) -> None:
    assert recorded(story).wrong == ()  # how soon it was said, `make stories` judges: on a machine that is idle
    assert "loss.py" in recorded(story).terminal  # where the others wait: the training, not the validation


def test_after_the_log_alone_and_the_run_folder_name_it_again(story: Story, recorded: Record) -> None:
    log, bundle = tell_after(recorded(story)).steps

    assert log.wrong == ()
    assert (log.verdict or {})["findings"][0]["certainty"] == "possible"  # no stack of rank 0 stands in the log
    assert bundle.wrong == ()
    assert "Clip Loss" in recorded(story).output


def test_the_log_holds_no_stack_of_rank_0(story: Story, recorded: Record) -> None:
    assert "[rank1]: Traceback" in recorded(story).output
    assert "[rank0]: Traceback" not in recorded(story).output


def test_fixed_with_the_validation_on_every_rank_the_job_ends_well(story: Story, tmp_path: Path) -> None:
    cell = tell_fixed(story, tmp_path / "fixed")

    assert cell.right, cell.steps
