"""torchtitan: TensorBoard writes to an object store in every step, and every step takes longer than the last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unhang.lab.stories.moments import after, before, fixed
from unhang.lab.stories.recorded import Recorded
from unhang.lab.stories.story import Story

STORY = "torchtitan"
pytestmark = [pytest.mark.job, pytest.mark.timeout(300)]
Record = Callable[[Story], Recorded]


def test_before_check_names_the_object_store_and_the_line_that_waits_for_it(story: Story) -> None:
    cell = before(story)

    assert cell.right, cell.steps


def test_during_run_names_rank_0_its_line_and_the_step_since_when(story: Story, recorded: Record) -> None:
    assert recorded(story).wrong == ()  # how soon it was said, `make stories` judges: on a machine that is idle


def test_after_the_log_alone_and_the_run_folder_name_them_again(story: Story, recorded: Record) -> None:
    log, bundle = after(recorded(story)).steps

    assert log.wrong == ()
    assert bundle.wrong == ()


def test_fixed_with_the_background_writer_the_steps_are_short_again(
    story: Story, recorded: Record, tmp_path: Path
) -> None:
    cell = fixed(story, tmp_path / "fixed", recorded(story))

    assert cell.right, cell.steps
    assert cell.steps[0].also  # seconds a step, before and now
