"""A node's silence is a line; that of hundreds is one line too, and not hundreds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.msgpack import encode

from unhang.watch.job.wait_detection import RankSample, RankState
from unhang.watch.nodes import node_announcements
from unhang.watch.nodes.cluster_view import ClusterView
from unhang.watch.nodes.node_announcements import SilentNodeAnnouncements
from unhang.watch.nodes.rank_digest import NodeHello, NodeRanks, digest_of
from unhang.watch.nodes.transport.mailbox import ReceivedValue, TransportState
from unhang.watch.nodes.transport.node_discovery import JobNodes
from unhang.wire.documents.live_state import RankActivity
from unhang.wire.record_views import RankIdentity, RecordView


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterView:
    (tmp_path / "records").mkdir()
    return ClusterView(JobNodes("job", 1000, 0, via=str(tmp_path / "meet")), "h0", tmp_path, tmp_path / "records")


def hear(cluster: ClusterView, nodes: Sequence[int], *, ago_s: float = 0.0, answer: bool | None = None) -> None:
    """As if ``nodes`` had spoken so long ago, and their machines had been asked since."""
    now_ns = time.monotonic_ns()
    heard_ns = now_ns - int(1e9 * ago_s)
    state = RankState(RankActivity.BUSY, None, stuck=False, in_init=False, rhythm=True)
    digest = digest_of(
        heard_ns,
        NodeRanks({1: RankSample(RecordView(RankIdentity(rank=1)))}, {1: state}),
        deaths=0,
        over=0,
        whole=False,
    )
    news = TransportState(
        now_ns,
        met=True,
        since_ns=now_ns,
        seat=0,
        hellos=[ReceivedValue(n, 0, 0, encode(NodeHello(f"h{n}", f"h{n}", "", [n], 0, 0))) for n in nodes],
        digests=[ReceivedValue(n, 0, heard_ns, encode(digest)) for n in nodes],
        answers=dict.fromkeys(nodes, (now_ns, answer)) if answer is not None else {},
    )
    cluster.roster.take(news)
    cluster._states.last = news


def said(lines: SilentNodeAnnouncements, cluster: ClusterView) -> list[str]:
    return [str(text) for text in lines.due(cluster)]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (True, "no heartbeat from the watcher of node h7 for 20 s; its machine responds"),
        (False, "no heartbeat from node h7 for 20 s; its machine does not respond"),
        (None, "no heartbeat from node h7 for 20 s"),
    ],
)
def test_one_node_is_told_of_once(cluster: ClusterView, answer: bool | None, words: str) -> None:
    lines = SilentNodeAnnouncements()
    hear(cluster, [7], ago_s=20, answer=answer)

    assert said(lines, cluster) == [words]
    assert said(lines, cluster) == []

    hear(cluster, [7])
    assert said(lines, cluster) == ["the heartbeat of node h7 is back"]


def test_a_silence_is_told_when_it_is_known_whether_the_machine_answers(cluster: ClusterView) -> None:
    lines = SilentNodeAnnouncements()
    hear(cluster, [7], ago_s=6)
    assert said(lines, cluster) == []

    hear(cluster, [7], ago_s=6, answer=False)
    assert said(lines, cluster) == ["no heartbeat from node h7 for 6 s; its machine does not respond"]


def test_hundreds_are_one_line_and_the_next_ones_are_kept_together(
    cluster: ClusterView, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = SilentNodeAnnouncements()
    hear(cluster, range(1, 300), ago_s=20, answer=True)
    assert said(lines, cluster) == [
        "no heartbeat from the watchers of 299 nodes (h1, h2, h3, …); their machines respond",
    ]

    for node in (300, 301, 302):
        hear(cluster, [node], ago_s=20, answer=False)
        assert said(lines, cluster) == [f"no heartbeat from node h{node} for 20 s; its machine does not respond"]

    hear(cluster, range(1, 300))
    assert said(lines, cluster) == []  # enough lines came just now

    monkeypatch.setattr(node_announcements, "BETWEEN_S", 0.0)
    lines._next_at = 0.0
    assert said(lines, cluster) == ["heartbeats from 299 nodes are back (h1, h2, h3, …)"]
