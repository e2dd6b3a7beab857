"""torchtitan: rank 0's scalars go to slow storage, and once the writer's queue is full every step waits for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from unhang_lab.stories.moments import tell_after, tell_before, tell_fixed
from unhang_lab.stories.recorded_run import RecordedRun
from unhang_lab.stories.story import Story

STORY = "torchtitan"
pytestmark = [pytest.mark.job, pytest.mark.timeout(300)]
Record = Callable[[Story], RecordedRun]


def test_before_check_names_the_folder_whose_appends_are_slow(story: Story) -> None:
    cell = tell_before(story)

    assert cell.right, cell.steps


def test_during_run_names_rank_0_its_line_and_the_step_since_when(story: Story, recorded: Record) -> None:
    assert recorded(story).wrong == ()  # how soon it was said, `make stories` judges: on a machine that is idle
    assert "the wait times out in" in " ".join(recorded(story).terminal.split())  # later, as it stands still


def test_the_steps_are_quick_until_the_writers_queue_is_full(story: Story, recorded: Record) -> None:
    step_s = [float(one) for one in re.findall(r"\[rank1\].*end_to_end: ([\d.]+)s", recorded(story).output)]

    assert len(step_s) > 1000 / 8  # 8 values a step: the queue of 1,000 takes that many steps without the storage
    assert max(step_s[-5:]) > 3 * sorted(step_s[:100])[50]


def test_after_the_log_alone_and_the_run_folder_name_them_again(story: Story, recorded: Record) -> None:
    log, bundle = tell_after(recorded(story)).steps

    assert log.wrong == ()
    assert (log.verdict or {})["differential"][0]["cause"] == "single-rank-work"  # no stack of rank 0 is in the log
    assert "[rank0]:[rank0]: Traceback" not in recorded(story).output
    assert bundle.wrong == ()


def test_fixed_with_the_log_on_a_disk_of_the_node_the_steps_stay_short(
    story: Story, recorded: Record, tmp_path: Path
) -> None:
    cell = tell_fixed(story, tmp_path / "fixed", recorded(story))

    assert cell.right, cell.steps
    assert cell.steps[0].also, cell  # how steps grew, before and now
