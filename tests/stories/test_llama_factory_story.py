"""llama-factory: rank 0 tokenises while the others wait in a barrier; the same job on a wrong interface."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.two_networks import MAIN, Networks, two_nodes, why_not
from unhang.lab.stories.moments import after, before, fixed
from unhang.lab.stories.recorded import Recorded
from unhang.lab.stories.story import Story

STORY = "llama-factory"
pytestmark = [pytest.mark.job, pytest.mark.timeout(420)]
Record = Callable[[Story], Recorded]
PORT = "29519"


def test_before_check_names_the_limit_the_cards_the_bridges_and_the_interface(story: Story) -> None:
    cell = before(story)

    assert cell.right, cell.steps


def test_during_run_names_rank_0_and_the_line_that_tokenises(story: Story, recorded: Record) -> None:
    assert recorded(story).wrong == ()  # how soon it was said, `make stories` judges: on a machine that is idle
    assert "killed by its own watchdog in" in " ".join(recorded(story).terminal.split())  # lines are wrapped


def test_after_the_log_alone_and_the_run_folder_name_them_again(story: Story, recorded: Record) -> None:
    log, bundle = after(recorded(story)).steps

    assert log.wrong == ()
    assert bundle.wrong == ()


def test_fixed_the_others_wait_on_the_store_for_longer_than_the_limit(story: Story, tmp_path: Path) -> None:
    cell = fixed(story, tmp_path / "fixed")

    assert cell.right, cell.steps


@pytest.fixture
def dead_link() -> Iterator[Networks]:
    """Two nodes; what is sent over their second link arrives nowhere."""
    with two_nodes() as nodes:
        nodes.dead(2)
        yield nodes
        assert nodes.processes() == []


@pytest.mark.live
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_a_wrong_interface_is_named_while_the_job_lives_and_by_both_folders(
    story: Story, dead_link: Networks, tmp_path: Path
) -> None:
    shutil.copytree(story.folder, tmp_path / "job", ignore=shutil.ignore_patterns("machine"))

    said = _on_both_nodes(dead_link, tmp_path, link=2)
    words = [sys.executable, "-c", MAIN, "diagnose", "node1", "node2", "--format", "json"]
    verdict = json.loads(subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False).stdout)

    # the one that asks for the connection sees that nobody answers; the other one only waits
    assert any("to connect to 10.91.2." in text for text in said), said
    assert verdict["findings"][0]["cause"] == "network-config"
    assert any("unhang bisect" in remedy["change"] for remedy in verdict["findings"][0]["remedies"])


@pytest.mark.live
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_bisect_finds_the_interface_and_with_it_the_ranks_meet(dead_link: Networks) -> None:
    for node in (1, 2):
        dead_link.called(node, f"10.91.2.{node}")

    first, *_ = dead_link.run("bisect", "--limit", "3", "--format", "json")
    (finding,) = json.loads(first.stdout)["findings"]

    needed: dict[str, Any] = finding["remedies"][0]["set"]
    assert needed == {"GLOO_SOCKET_IFNAME": dead_link.interface(1, 1)}


def _on_both_nodes(nodes: Networks, root: Path, *, link: int) -> list[str]:
    """What ``unhang run`` of the job says on each node, until its own limit has ended it."""
    started = []
    for node, name in enumerate(nodes.names, 1):
        words = [
            "ip",
            "netns",
            "exec",
            name,
            sys.executable,
            "-c",
            MAIN,
            "run",
            "--dir",
            str(root / f"node{node}"),
            "--",
        ]
        words += [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node - 1)]
        words += ["--master-addr", "10.91.1.1", "--master-port", PORT, "train.py", "qwen_lora_sft.yaml", "use_cpu=true"]
        own = {
            "HF_HOME": str(root / f"cache{node}"),
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "NO_COLOR": "1",
        }
        own |= {"GLOO_SOCKET_IFNAME": nodes.interface(node, link), "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
        started.append(
            subprocess.Popen(
                words,
                cwd=root / "job",
                env={**os.environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        return [process.communicate(timeout=150)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
