"""openclip: rows of a CSV that cannot be read leave one rank with fewer batches, and the evaluation never ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from unhang.lab.stories.moments import after, before, fixed
from unhang.lab.stories.recorded import Recorded
from unhang.lab.stories.story import Story

STORY = "openclip"
pytestmark = [pytest.mark.job, pytest.mark.timeout(240)]
Record = Callable[[Story], Recorded]
pytest.importorskip("webdataset")


def test_before_check_names_the_rows_that_ranks_skip_the_old_driver_and_the_crowded_card(story: Story) -> None:
    cell = before(story)

    assert cell.right, cell.steps


def test_during_run_names_the_rank_that_left_the_evaluation(story: Story, recorded: Record) -> None:
    assert recorded(story).wrong == ()  # how soon it was said, `make stories` judges: on a machine that is idle
    remedies = (recorded(story).verdict or {})["findings"][0]["remedies"]
    assert remedies[0]["change"].startswith("unhang reshard val.csv --to webdataset --ranks 2")
    assert "unhang.even_batches(dataloader)" in remedies[1]["change"]


def test_after_the_log_alone_and_the_run_folder_name_it_again(story: Story, recorded: Record) -> None:
    log, bundle = after(recorded(story)).steps

    assert log.wrong == ()
    assert bundle.wrong == ()


def test_fixed_equal_shards_and_a_loop_left_together_end_well(story: Story, tmp_path: Path) -> None:
    cell = fixed(story, tmp_path / "fixed")

    assert cell.right, cell.steps
    (manifest,) = tmp_path.glob("fixed/**/val-shards/manifest.json")
    told = json.loads(manifest.read_text())
    assert told["survey"]["broken"] == {"missing": 20, "cut-short": 14}
    assert (told["good"], told["samples"]) == (98, 98)
