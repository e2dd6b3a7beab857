"""llama-factory: all ranks are in the first barrier, and none finishes it: their interface leads nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.check.probe.two_networks import Networks, two_nodes, why_not
from tests.stories.story_writer import write_story
from unhang.errors import MissingExtra
from unhang_lab.stories.moments import tell_after, tell_before, tell_fixed
from unhang_lab.stories.recorded_run import RecordedRun
from unhang_lab.stories.story import Story
from unhang_lab.stories.story_file import load_story
from unhang_lab.stories.workplace import workplace

STORY = "llama-factory"
pytestmark = [pytest.mark.job, pytest.mark.timeout(300)]
Record = Callable[[Story], RecordedRun]
needs_namespaces = pytest.mark.skipif(bool(why_not()), reason=why_not())


def test_a_machine_that_permits_no_namespaces_is_told_as_not_looked_at(tmp_path: Path) -> None:
    folder = write_story(tmp_path / "story", replace={"ranks = 2": 'ranks = 2\npermits = ["false"]'})

    with pytest.raises(MissingExtra, match="this machine does not permit false"), workplace(load_story(folder)):
        pass


@needs_namespaces
def test_before_check_names_the_cards_the_bridges_and_the_interface(story: Story) -> None:
    cell = tell_before(story)

    assert cell.right, cell.steps


@needs_namespaces
def test_during_run_names_the_transport_and_not_a_rank_at_work(story: Story, recorded: Record) -> None:
    assert recorded(story).wrong == ()  # how soon it was said, `make stories` judges: on a machine that is idle
    said = (recorded(story).verdict or {})["findings"]
    assert {one["cause"] for one in said} <= {"network-config", "network-fault"}  # nothing of the user's code


@needs_namespaces
def test_after_the_log_alone_leaves_it_open_and_the_run_folder_names_it(story: Story, recorded: Record) -> None:
    log, bundle = tell_after(recorded(story)).steps

    assert log.wrong == ()
    assert {one["certainty"] for one in (log.verdict or {})["findings"]} <= {"possible"}
    assert bundle.wrong == ()


@needs_namespaces
def test_fixed_on_the_other_interface_the_job_ends_well(story: Story, tmp_path: Path) -> None:
    cell = tell_fixed(story, tmp_path / "fixed")

    assert cell.right, cell.steps


@pytest.fixture
def dead_link() -> Iterator[Networks]:
    """Two nodes; what is sent over their second link arrives nowhere."""
    with two_nodes() as nodes:
        nodes.dead(2)
        yield nodes
        assert nodes.processes() == []


@pytest.mark.live
@needs_namespaces
def test_bisect_finds_the_interface_and_with_it_the_ranks_meet(dead_link: Networks) -> None:
    for node in (1, 2):
        dead_link.called(node, f"10.91.2.{node}")

    first, *_ = dead_link.run("bisect", "--limit", "3", "--format", "json")
    (finding,) = json.loads(first.stdout)["findings"]

    needed: dict[str, Any] = finding["remedies"][0]["set"]
    assert needed == {"GLOO_SOCKET_IFNAME": dead_link.interface(1, 1)}
