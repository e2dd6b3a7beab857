"""While somebody waits a node tells at once what is new, and not again what is only older."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.msgpack import encode

from unhang.watch.job.wait_detection import RankSample, RankState, WaitSnapshot
from unhang.watch.nodes.cluster_view import ClusterView
from unhang.watch.nodes.node_roster import MAX_ASKED, WITNESSES, nodes_for_stall
from unhang.watch.nodes.rank_digest import NodeDigest, NodeHello, NodeRanks, change_key, digest_of
from unhang.watch.nodes.transport.mailbox import ReceivedValue, TransportState
from unhang.watch.nodes.transport.node_discovery import JobNodes
from unhang.wire.documents.live_state import RankActivity
from unhang.wire.record_views import CodeLine, GroupProgress, RankIdentity, RecordView

SECOND_NS = 1_000_000_000
STALL_NS = 100 * SECOND_NS


def digest(now_ns: int, *, done: int = 7, line: int = 12, deaths: int = 0, whole: bool = True) -> NodeDigest:
    view = RecordView(
        RankIdentity(4711, 3, 0, 8),
        beat_ns=now_ns,
        phase="communication",
        since_ns=STALL_NS,
        user=CodeLine("train.py", line, "main"),
        steps=done,
        step_mean_ns=float(now_ns),
        groups=[GroupProgress("0", 8, done + 1, done + 1, done, STALL_NS, True, "gloo")],
    )
    state = RankState(RankActivity.WAITING, STALL_NS, stuck=False, in_init=False, rhythm=True)
    ranks = NodeRanks({3: RankSample(view)}, {3: state})
    return digest_of(now_ns, ranks, deaths=deaths, over=0, whole=whole)


def test_time_alone_is_nothing_new() -> None:
    earlier, later = digest(STALL_NS + SECOND_NS), digest(STALL_NS + 9 * SECOND_NS)

    assert encode(earlier) != encode(later)
    assert change_key(earlier) == change_key(later)


@pytest.mark.parametrize("change", [{"done": 8}, {"line": 13}, {"deaths": 1}, {"whole": False}])
def test_what_a_rank_does_is_new(change: dict[str, int]) -> None:
    now_ns = STALL_NS + SECOND_NS

    assert change_key(digest(now_ns)) != change_key(digest(now_ns, **change))


def of_many(cluster: ClusterView, nodes: int) -> None:
    """As if so many others, of two ranks each, had been heard just now."""
    told = []
    for node in range(1, nodes):
        hello = NodeHello(f"h{node}", f"h{node}", "", [2 * node, 2 * node + 1], 0, 0)
        told.append((node, encode(hello)))
    now_ns = cluster._started_ns
    cluster.roster.take(
        TransportState(
            now_ns,
            met=True,
            since_ns=now_ns,
            seat=0,
            hellos=[ReceivedValue(node, now_ns, now_ns, value) for node, value in told],
            digests=[ReceivedValue(node, now_ns, now_ns + 1, encode(digest_of_two(node, now_ns))) for node, _ in told],
        )
    )


def digest_of_two(node: int, now_ns: int) -> NodeDigest:
    looks = {rank: RankSample(RecordView(RankIdentity(rank=rank))) for rank in (2 * node, 2 * node + 1)}
    waits = RankState(RankActivity.WAITING, now_ns, stuck=False, in_init=False, rhythm=True)
    return digest_of(now_ns, NodeRanks(looks, dict.fromkeys(looks, waits)), deaths=0, over=0, whole=True)


@pytest.mark.parametrize(
    ("guilty", "asked"), [((), MAX_ASKED), ((60,), 1 + WITNESSES), (tuple(range(40, 80)), MAX_ASKED)]
)
def test_a_few_witnesses_speak_for_many_and_the_guilty_are_all_asked(
    tmp_path: Path, guilty: tuple[int, ...], asked: int
) -> None:
    (tmp_path / "records").mkdir()
    cluster = ClusterView(JobNodes("job", 100, 0, via=str(tmp_path / "meet")), "h0", tmp_path, tmp_path / "records")
    of_many(cluster, 100)
    late = [2 * node for node in guilty]
    doing = {rank: RankActivity.IDLE if rank in late else RankActivity.WAITING for rank in range(200)}
    waiters = tuple(rank for rank in doing if rank not in late)
    snapshot = WaitSnapshot(doing, waiters, tuple(late), 0, 3.0, urgent=True, due=True, rhythm=True)

    chosen = nodes_for_stall(cluster.roster, snapshot, cluster._started_ns)

    assert len(chosen) == asked
    assert set(guilty[:MAX_ASKED]) <= set(chosen)
