"""GRPO: one rank answers at such length that the others give up waiting; old advice, ZeRO and versions are judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unhang_lab.stories.moments import tell_after, tell_before, tell_fixed
from unhang_lab.stories.recorded_run import RecordedRun
from unhang_lab.stories.story import Story

STORY = "grpo"
pytestmark = [pytest.mark.job, pytest.mark.timeout(300)]
Record = Callable[[Story], RecordedRun]


def test_before_check_judges_the_limit_the_variables_zero_and_the_versions(story: Story) -> None:
    cell = tell_before(story)

    assert cell.right, cell.steps


def test_during_run_names_the_rank_that_generates_while_the_job_lives(story: Story, recorded: Record) -> None:
    assert recorded(story).wrong == ()  # how soon it was said, `make stories` judges: on a machine that is idle


def test_after_the_log_alone_and_the_run_folder_name_it_again(story: Story, recorded: Record) -> None:
    log, bundle = tell_after(recorded(story)).steps

    assert log.wrong == ()
    assert bundle.wrong == ()


def test_fixed_with_shorter_answers_the_same_job_ends_well(story: Story, tmp_path: Path) -> None:
    cell = tell_fixed(story, tmp_path / "fixed")

    assert cell.right, cell.steps
