"""Nodes that met: one judges for all, another takes over, a silent one is known as such."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.watch.nodes.seen_ranks import look, ranks_of, roster_of
from unhang.watch import side_process
from unhang.watch.job.wait_detection import RankSample, WaitDetector, WaitSnapshot
from unhang.watch.nodes import leadership
from unhang.watch.nodes.cluster_view import ClusterView
from unhang.watch.nodes.leadership import Role, elect_role
from unhang.watch.nodes.node_announcements import NodeAnnouncements
from unhang.watch.nodes.node_roster import newly_quiet
from unhang.watch.nodes.rank_digest import NodeDigest, NodeRanks, decoded, digest_of
from unhang.watch.nodes.transport.mailbox import ReceivedValue, TransportState
from unhang.watch.nodes.transport.node_discovery import JobNodes
from unhang.wire.documents.live_state import RankActivity
from unhang.wire.documents.verdict_summary import VerdictSummary

pytestmark = pytest.mark.timeout(300)
LIMIT_S = 90.0
STALL = VerdictSummary(
    1, "stall", "hang", "rank-frozen", "certain", (2,), "a.py:1", "it", None, None, False, True, False, False
)


class Node:
    """A watcher's side of one node, with a carrier of its own."""

    def __init__(self, place: Path, number: int, party: JobNodes) -> None:
        self.folder, self.records = place / f"run-{number}", place / f"records-{number}"
        (self.folder / ".unhang").mkdir(parents=True)
        self.records.mkdir()
        self.number, self.detector, self.lines = number, WaitDetector(), NodeAnnouncements()
        self.cluster = ClusterView(party, f"h{number}", self.folder, self.records)
        self.since_ns, self.late = 0, -1
        self.snapshot: WaitSnapshot | None = None
        self.said: list[str] = []

    def tick(self) -> None:
        now_ns = time.monotonic_ns()
        mine = (2 * self.number, 2 * self.number + 1)
        looks = {rank: look(rank, since_ns=self.since_ns, busy=rank == self.late or not self.since_ns) for rank in mine}
        states = self.detector.rank_states(now_ns, looks)
        self.cluster.tick(now_ns, looks, states, deaths=0)
        self.snapshot = self.cluster.judge(self.detector, now_ns, states)
        self.said += [text.template for text in self.lines.due(self.cluster)]

    def end(self) -> None:
        self.cluster._process.end()


class Nodes:
    """Several of them, ticking in turn."""

    def __init__(self, place: Path, count: int, party: Callable[[int], JobNodes]) -> None:
        self.every = [Node(place, number, party(number)) for number in range(count)]

    def until(self, done: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        while not done():
            assert time.monotonic() < deadline, [(n.cluster.role, n.cluster.transport) for n in self.every]
            for node in self.every:
                node.tick()
            time.sleep(0.1)

    def met(self) -> bool:
        first = self.every[0].cluster
        return (
            first.role is Role.LEADS
            and len(first.roster.met()) == len(self.every) - 1
            and all(node.cluster.role is Role.FOLLOWS for node in self.every[1:])
        )


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Callable[..., Nodes]]:
    made: list[Node] = []

    def make(count: int, party: Callable[[int], JobNodes] | None = None) -> Nodes:
        found = Nodes(
            tmp_path, count, party or (lambda number: JobNodes("job", count, number, via=str(tmp_path / "meet")))
        )
        made.extend(found.every)
        return found

    yield make
    for node in made:
        node.end()


def test_the_first_node_judges_the_ranks_of_all_and_everybody_hears_it(nodes: Callable[..., Nodes]) -> None:
    three = nodes(3)
    three.until(three.met)
    assert all(node.snapshot is None for node in three.every)

    for node in three.every:
        node.since_ns = time.monotonic_ns()
    three.every[1].late = 2
    three.until(lambda: three.every[0].snapshot is not None and three.every[0].snapshot.due)

    snapshot = three.every[0].snapshot
    assert snapshot is not None
    assert snapshot.laggards == (2,)
    assert sorted(snapshot.waiters) == [0, 1, 3, 4, 5]
    assert snapshot.waited_s * 1e9 <= time.monotonic_ns() - min(node.since_ns for node in three.every)
    assert three.every[0].cluster.samples([2])[2].view.user.line == 7
    assert three.every[1].snapshot is None

    assert three.every[0].cluster.request_evidence(1, snapshot, with_stacks=False) == [1, 2]
    wanted = {}
    three.until(lambda: bool(wanted.update(_asked(three.every[1])) or wanted))
    assert abs(wanted[1] - snapshot.since_ns) < 10e9
    three.every[0].cluster.say(STALL, b"{}")
    heard: list[str] = []
    three.until(lambda: bool(heard.extend(_told(three.every[2])) or heard))
    assert heard == ["rank-frozen"]
    assert three.every[2].cluster.take_leader_verdict() is None


def _asked(node: Node) -> dict[int, int]:
    look = node.cluster.take_sample_request()
    return {look.number: look.since_ns} if look is not None else {}


def _told(node: Node) -> list[str]:
    said = node.cluster.take_leader_verdict()
    return [said.summary.cause] if said is not None else []


@pytest.mark.live
def test_another_node_leads_when_the_first_is_gone_and_gives_it_back(
    nodes: Callable[..., Nodes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "FIRST_PAUSE_S", 1.0)
    monkeypatch.setattr(leadership, "PAUSE_S", 1.0)
    monkeypatch.setattr("unhang.watch.nodes.node_roster.SILENT_S", 2.0)
    three = nodes(3)
    three.until(three.met)

    first, *others = three.every
    first.end()
    three.every = others
    roles = [Role.LEADS, Role.FOLLOWS]
    three.until(
        lambda: (
            [node.cluster.role for node in others] == roles
            and [node.name for node in others[0].cluster.silent()] == ["h0"]
            and others[1].cluster.leader == 1
        )
    )

    assert "no heartbeat from the first node's watcher; verdicts come from here" in others[0].said
    states = others[0].cluster.roster.states(time.monotonic_ns())
    assert {states[rank].doing for rank in (0, 1)} == {RankActivity.SILENT}

    three.every = [first, *others]
    three.until(lambda: three.met() and {node.cluster.leader for node in three.every} == {0})


@pytest.mark.live
def test_numbers_without_a_count_meet_and_the_last_one_to_leave_takes_the_folder_away(
    nodes: Callable[..., Nodes], tmp_path: Path
) -> None:
    two = nodes(2, lambda number: JobNodes("job", 0, number, via=str(tmp_path / "meet")))
    two.until(two.met)
    meet = next((tmp_path / "meet").glob(".unhang-nodes-*"))

    two.every[1].cluster.end(well=True, wait_s=0.0)
    assert (meet / "d-0").exists()
    two.every[0].cluster.end(well=True, wait_s=0.0)

    assert not meet.exists()


def test_nodes_without_a_place_to_meet_are_alone_and_say_how_to_change_it(nodes: Callable[..., Nodes]) -> None:
    two = nodes(1, lambda number: JobNodes("job", 2, number, "192.0.2.1", 29500))
    two.until(lambda: two.every[0].cluster.role is Role.ALONE)
    two.every[0].since_ns = time.monotonic_ns() - 9 * 10**9
    two.every[0].tick()

    news = two.every[0].cluster.transport
    assert news is not None
    assert "UNHANG_TOKEN" in news.because
    assert two.every[0].snapshot is not None  # it judges what it sees


def test_a_store_of_their_own_on_loopback_needs_no_token(nodes: Callable[..., Nodes]) -> None:
    port = free_port()
    two = nodes(2, lambda number: JobNodes("job", 2, number or None, via=f"127.0.0.1:{port}"))

    two.until(two.met)

    assert [node.cluster.transport.place for node in two.every if node.cluster.transport] == [f"127.0.0.1:{port}"] * 2


@pytest.mark.live
def test_a_carrier_that_hangs_is_started_again_and_holds_nobody_up(
    nodes: Callable[..., Nodes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_process, "HUNG_S", 4.0)
    monkeypatch.setattr(side_process, "PAUSE_S", 0.1)
    two = nodes(2)
    two.until(two.met)
    running = two.every[1].cluster._process._running
    assert running is not None
    assert running._process is not None
    pid = running._process.pid
    os.kill(pid, signal.SIGSTOP)

    ticks = 0

    def again() -> bool:
        nonlocal ticks
        two.every[1].tick()
        ticks += 1
        return two.every[1].cluster._process._running not in (running, None) and two.met()

    two.until(again)
    assert ticks > 3  # it did not wait for it
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        pytest.fail("the old one is still there")


def heard(node: int, value: bytes, first_s: float, last_s: float) -> ReceivedValue:
    now_ns = time.monotonic_ns()
    return ReceivedValue(node, now_ns - int(first_s * 1e9), now_ns - int(last_s * 1e9), value)


def news(seat: int, words: list[ReceivedValue], *, met: bool = True, since_s: float = 60.0) -> TransportState:
    now_ns = time.monotonic_ns()
    return TransportState(now_ns, met, now_ns - int(since_s * 1e9), seat=seat, words=words)


def test_who_leads() -> None:
    long_ago = time.monotonic_ns() - 60 * 10**9
    fresh, silent, left_over = heard(0, b"w", 50, 0.5), heard(0, b"w", 50, 20), heard(0, b"w", 50, 50)

    assert elect_role(None, time.monotonic_ns()) == (Role.UNDECIDED, -1)
    assert elect_role(None, long_ago) == (Role.ALONE, -1)
    assert elect_role(news(0, []), long_ago) == (Role.LEADS, 0)
    assert elect_role(news(1, [fresh]), long_ago) == (Role.FOLLOWS, 0)
    assert elect_role(news(1, [silent]), long_ago) == (Role.LEADS, 1)
    assert elect_role(news(1, [left_over]), long_ago) == (Role.LEADS, 1)
    assert elect_role(news(2, [silent, heard(1, b"w", 50, 0.2)]), long_ago) == (Role.FOLLOWS, 1)
    assert elect_role(news(900, [heard(0, b"w", 50, 10)]), long_ago) == (Role.UNDECIDED, -1)
    assert elect_role(news(900, [heard(0, b"w", 90, 80)]), long_ago) == (Role.ALONE, -1)
    assert elect_role(news(1, [], met=False, since_s=5), long_ago) == (Role.UNDECIDED, -1)
    assert elect_role(news(1, [], met=False, since_s=50), long_ago) == (Role.ALONE, -1)
    assert elect_role(news(1, [heard(0, b"w", 9, 5)]), long_ago) == (
        Role.UNDECIDED,
        -1,
    )  # not at once: no two at a time


def test_a_death_is_told_at_once_with_every_rank(nodes: Callable[..., Nodes]) -> None:
    node = nodes(1).every[0]
    looks = {0: look(0, busy=True)}

    node.cluster.tick(time.monotonic_ns(), looks, node.detector.rank_states(time.monotonic_ns(), looks), deaths=1)

    node.cluster._requests.refresh()
    errand = node.cluster._requests.last
    assert errand is not None
    assert errand.hurry
    told = decoded(errand.digest, NodeDigest)
    assert told is not None
    assert told.columns is not None


def test_an_answer_from_before_the_silence_tells_nothing_and_is_waited_for(nodes: Callable[..., Nodes]) -> None:
    """A node fell quiet: no verdict until it is heard again, or its machine was asked anew, or for some seconds."""
    cluster = nodes(1).every[0].cluster
    digest = digest_of(time.monotonic_ns(), ranks_of(2), deaths=0, over=0, whole=False)

    def known(quiet_s: float, asked_s: float | None) -> tuple[bool | None, bool]:
        now_ns = time.monotonic_ns()
        cluster.roster = roster_of(digest, quiet_s=quiet_s)
        asked = {1: (now_ns - int(asked_s * 1e9), False)} if asked_s is not None else {}
        cluster._states.last = TransportState(now_ns, True, 0, seat=0, answers=asked)
        return cluster.answers(1), bool(newly_quiet(cluster.roster.met(), cluster.answers, now_ns))

    assert known(0.5, 300.0) == (None, False)
    assert known(3.5, 300.0) == (None, True)
    assert known(3.5, 0.2) == (False, True)  # not heard for a moment only: it is not silent yet
    assert known(6.0, 300.0) == (None, True)
    assert known(6.0, 5.9) == (None, True)
    assert known(6.0, 2.0) == (False, False)
    assert known(9.0, None) == (None, False)


def test_a_wait_goes_on_while_a_node_is_in_doubt_and_no_look_is_due(nodes: Callable[..., Nodes]) -> None:
    cluster, detector = nodes(1).every[0].cluster, WaitDetector()
    cluster.role = Role.LEADS
    now_ns = time.monotonic_ns()
    waits = {rank: look(rank, since_ns=now_ns - 9 * 10**9) for rank in (0, 1)}
    late = NodeRanks({2: look(2, busy=True)}, {})
    late = NodeRanks(late.samples, WaitDetector().rank_states(now_ns, late.samples))
    digest = digest_of(now_ns, late, deaths=0, over=0, whole=True)

    def judged(quiet_s: float, looks: dict[int, RankSample]) -> WaitSnapshot | None:
        now_ns = time.monotonic_ns()
        states = detector.rank_states(now_ns, looks)
        cluster._ranks, cluster.roster = NodeRanks(looks, states), roster_of(digest, quiet_s=quiet_s)
        return cluster.judge(detector, now_ns, states)

    known = judged(0.2, waits)
    assert known is not None
    assert (known.due, known.laggards) == (True, (2,))
    held = judged(3.5, waits)
    assert held is not None
    assert (held.due, held.laggards, held.since_ns) == (False, (2,), known.since_ns)
    assert judged(3.5, {0: look(0, busy=True), 1: waits[1]}) is None  # who waited longest goes on
    gone = judged(20.0, waits)
    assert gone is not None
    assert (gone.due, gone.laggards, gone.doing[2]) == (True, (2, 3), RankActivity.SILENT)
