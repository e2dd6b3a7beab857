"""llama-recipes: a split without a seed, FSDP2, and a rank that is at the save while the other still trains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unhang_lab.stories.moments import tell_after, tell_before, tell_fixed
from unhang_lab.stories.recorded_run import RecordedRun
from unhang_lab.stories.story import Story

STORY = "llama-recipes"
pytestmark = [pytest.mark.job, pytest.mark.timeout(240)]
Record = Callable[[Story], RecordedRun]


def test_before_check_names_the_split_and_the_generator_nobody_seeds(story: Story) -> None:
    cell = tell_before(story)

    assert cell.right, cell.steps


def test_during_run_names_the_rank_that_left_while_the_job_lives(story: Story, recorded: Record) -> None:
    assert recorded(story).wrong == ()  # how soon it was said, `make stories` judges: on a machine that is idle
    assert (recorded(story).verdict or {})["killed_in_s"] > 0
    assert recorded(story).exit_code == 1  # it went on until its own limit, and ends as it does without us


def test_after_the_log_alone_and_the_run_folder_name_them_again(story: Story, recorded: Record) -> None:
    log, bundle = tell_after(recorded(story)).steps

    assert log.wrong == ()
    assert bundle.wrong == ()


def test_fixed_the_same_job_ends_well(story: Story, tmp_path: Path) -> None:
    cell = tell_fixed(story, tmp_path / "fixed")

    assert cell.right, cell.steps
