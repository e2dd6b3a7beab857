"""Three hosts, a rank on each: one verdict for all of them, whatever happens to the network, a watcher or a clock.

The hosts are namespaces of this machine (``three_hosts``); where none can be made these tests are skipped and say why.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.watch.nodes.three_hosts import COMPILER, Hosts, hosts, why_not
from tests.watch.nodes.watched_job import STEADY, WatchedJob
from unhang_lab.lab_case import find_case

pytestmark = [
    pytest.mark.job,
    pytest.mark.timeout(420),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]
FIVE_MINUTES_S = 300
VERDICT = re.compile(r"^(?:HANG|CRASH|UNKNOWN)\b", re.MULTILINE)


@pytest.fixture
def three() -> Iterator[Hosts]:
    with hosts(3) as made:
        yield made


def test_a_laggard_on_another_node_is_named_by_all(three: Hosts, tmp_path: Path) -> None:
    """Watchers that meet in a folder; evidence of the other nodes is looked at, and they hear the verdict."""
    job = WatchedJob.of(three, tmp_path, find_case("missing-rank").path, shared=True)
    job.start()

    verdict = job.wait_for_verdict(three[1])
    job.wait_for(lambda: all("verdict of node h1" in job.printed(three[number]) for number in (2, 3)))

    first = verdict["findings"][0]
    assert (verdict["status"], first["cause"], first["certainty"]) == ("hang", "rank-conditional-collective", "certain")
    assert (first["ranks"], first["nodes"]) == ([2], ["h3"]), job.said()
    assert (verdict["ranks_seen"], verdict["ranks_missing"]) == ([0, 1, 2], [])
    assert job.said().count("HANG ") == 1, job.said()


def test_a_node_that_is_cut_off_is_named_and_the_network_blamed(three: Hosts, tmp_path: Path) -> None:
    """Watchers that meet over the network, where a token is needed."""
    job = WatchedJob.of(three, tmp_path, STEADY, shared=False)
    job.start()
    job.wait_for_steps(40)

    three.cut(three[2])
    verdict = job.wait_for_verdict(three[1])
    job.wait_for(lambda: "verdict of node h1" in job.printed(three[3]))

    first = verdict["findings"][0]
    assert (verdict["status"], first["cause"], first["nodes"]) == ("hang", "network-fault", ["h2"]), job.said()
    assert first["ranks"] == [1]
    assert "no heartbeat from node h2" in job.printed(three[1]), job.said()
    assert "its machine answers" not in job.said()


@pytest.mark.live
@pytest.mark.parametrize("shared", [True, False], ids=["folder", "network"])
def test_a_poor_link_is_no_hang(three: Hosts, tmp_path: Path, *, shared: bool) -> None:
    """1 % of its packets are lost and 10 Mbit/s is all there is: the job goes on slowly, nobody says it hangs, and the
    node at the end of that link is named; never as certain."""
    job = WatchedJob.of(three, tmp_path, STEADY, shared=shared, environment={"FLOATS": "50000"})
    job.start()
    job.wait_for_steps(500)  # its pace before is known from them

    three.loses(three[2], 1)
    three.narrow(three[2], "10mbit")
    before = job.steps()
    verdict = job.wait_for_verdict(three[1], limit_s=180)

    assert job.steps() > before + 10, job.said()
    assert three.lost() > 0
    first = verdict["findings"][0]
    assert (verdict["status"], first["cause"], first["nodes"]) == ("slow", "network-fault", ["h2"]), job.said()
    assert first["certainty"] == "likely", job.said()
    assert not VERDICT.search(job.said()), job.said()


@pytest.mark.live
@pytest.mark.parametrize("shared", [True, False], ids=["folder", "network"])
def test_the_rank_whose_pace_all_nodes_keep_is_named_with_its_node(
    three: Hosts, tmp_path: Path, *, shared: bool
) -> None:
    """Each node has one rank: none of them could tell alone. Clocks are minutes apart where they can be."""
    if COMPILER is not None:
        three[3].clock_s = FIVE_MINUTES_S
    job = WatchedJob.of(three, tmp_path, STEADY, shared=shared, environment={"SLOW": "2"})
    job.start()

    verdict = job.wait_for_verdict(three[1], limit_s=150)
    job.wait_for(lambda: all("verdict of node h1: slow-rank" in job.printed(three[number]) for number in (2, 3)))

    first = verdict["findings"][0]
    assert (verdict["status"], first["cause"]) == ("slow", "slow-rank"), job.said()
    assert (first["ranks"], first["nodes"], first["certainty"]) == ([2], ["h3"], "likely"), job.said()
    assert first["where"]["function"] == "augment", job.said()
    assert job.said().count("SLOW ") == 1, job.said()


@pytest.mark.live
def test_a_rank_that_calls_something_else_and_stops_nothing_is_named_with_its_node(
    three: Hosts, tmp_path: Path
) -> None:
    """Each node has one rank, so that none could compare alone; another dtype of the same width goes through."""
    job = WatchedJob.of(three, tmp_path, STEADY, shared=True, environment={"ODD": "2"})
    job.start()

    verdict = job.wait_for_verdict(three[1], limit_s=150)

    first = verdict["findings"][0]
    assert (verdict["status"], first["cause"]) == ("slow", "collective-mismatch"), job.said()
    assert (2 in first["ranks"], "h3" in first["nodes"]) == (True, True), job.said()
    # dumps of a job that moves have no lines: one is named where a sample happened to find the rank in such a call
    assert (first["where"] or {"function": "share"})["function"] == "share", job.said()


def test_killed_watchers_are_back_and_the_verdict_comes_all_the_same(three: Hosts, tmp_path: Path) -> None:
    """Of the first node, which gives the verdicts, and of the node with the late rank; over a poor link besides, which
    nobody takes for a hang."""
    job = WatchedJob.of(three, tmp_path, STEADY, shared=False, environment={"LATE": "2"})
    job.start()
    job.wait_for_steps(20)

    three.loses(three[2], 1)
    three.narrow(three[2], "10mbit")
    killed = {host.name: set(host.pids("unhang.watch.watcher")) for host in (three[1], three[3])}
    assert all(killed.values())
    for pid in set.union(*killed.values()):
        os.kill(pid, signal.SIGKILL)
    before = job.steps()
    job.wait_for(lambda: all(set(three[n].pids("unhang.watch.watcher")) - killed[three[n].name] for n in (1, 3)))
    back_ns = time.monotonic_ns()
    job.wait_for(lambda: job.steps() > before + 20 and job.met(since_ns=back_ns))
    assert not VERDICT.search(job.said()), job.said()
    job.make_late()
    job.wait_for(lambda: "re-read it: unhang diagnose" in job.said())

    told = next(found for host in three.all if (found := job.verdict(host)) is not None)
    assert (told["findings"][0]["ranks"], told["findings"][0]["nodes"]) == ([2], ["h3"]), job.said()


@pytest.mark.live
@pytest.mark.parametrize("shared", [True, False], ids=["folder", "network"])
def test_a_rank_that_dies_on_another_node_is_named_with_its_last_words(
    three: Hosts, tmp_path: Path, *, shared: bool
) -> None:
    """The others wait for it, then fail because of it: they are not to blame, whoever is heard of first."""
    job = WatchedJob.of(three, tmp_path, STEADY, shared=shared, environment={"DIES": "2"})
    job.start()

    verdict = job.wait_for_verdict(three[1])

    first = verdict["findings"][0]
    assert (first["cause"], first["ranks"], first["nodes"]) == ("rank-crashed", [2], ["h3"]), job.said()
    assert "shard 7 ends too early" in json.dumps(first), job.said()
    assert len(VERDICT.findall(job.said())) == 1, job.said()


@pytest.mark.live
def test_the_first_node_is_switched_off_and_another_gives_the_verdict(three: Hosts, tmp_path: Path) -> None:
    job = WatchedJob.of(three, tmp_path, STEADY, shared=True)
    job.start()
    job.wait_for_steps(40)

    three.cut(three[1])  # first: a machine without power closes no connection
    three[1].switch_off()
    job.wait_for(lambda: "re-read it: unhang diagnose" in job.printed(three[2]))

    verdict = job.verdict(three[2])
    assert verdict is not None
    assert verdict["findings"][0]["ranks"] == [0], job.said()


@pytest.mark.skipif(COMPILER is None, reason="another clock needs cc")
@pytest.mark.parametrize(
    "shared", [pytest.param(True, id="folder"), pytest.param(False, id="network", marks=pytest.mark.live)]
)
def test_clocks_five_minutes_apart(three: Hosts, tmp_path: Path, *, shared: bool) -> None:
    """Of two hosts, for everything that runs there: ages travel between nodes, and times are told by one clock."""
    three[2].clock_s, three[3].clock_s = FIVE_MINUTES_S, -FIVE_MINUTES_S
    job = WatchedJob.of(three, tmp_path, STEADY, shared=shared, environment={"LATE": "2"})
    job.start()
    job.wait_for_steps(20)
    job.make_late()

    verdict = job.wait_for_verdict(three[1])
    at_s = time.time()

    first = verdict["findings"][0]
    assert (first["ranks"], first["nodes"]) == ([2], ["h3"]), job.said()
    assert (verdict["ranks_seen"], verdict["ranks_missing"]) == ([0, 1, 2], []), job.said()
    noticed = re.search(r"noticed after (\d+) s", job.printed(three[1]))
    assert noticed is not None
    # the clocks of the hosts would show as five minutes; a busy machine takes less
    assert int(noticed[1]) < 200, job.said()
    assert abs(_since_s(verdict) - at_s) < 200, job.said()


def _since_s(verdict: dict[str, object]) -> float:
    from datetime import datetime

    return datetime.fromisoformat(str(verdict["stalled_since"])).timestamp()
