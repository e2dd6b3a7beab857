"""Ranks as their records show them, and nodes as their digests tell of them."""

from __future__ import annotations

import time

import msgspec
from msgspec.msgpack import encode

from unhang.watch.job.wait_detection import RankSample, WaitDetector
from unhang.watch.nodes.node_roster import NodeRoster
from unhang.watch.nodes.rank_digest import NodeDigest, NodeHello, NodeRanks
from unhang.watch.nodes.transport.mailbox import ReceivedValue, TransportState
from unhang.wire.record_views import CodeLine, GroupProgress, MarkedPhase, RankIdentity, RecordView


def look(
    rank: int, *, waits_s: float = 0.0, since_ns: int = 0, busy: bool = False, mark: MarkedPhase | None = None
) -> RankSample:
    now_ns = time.monotonic_ns()
    since_ns = since_ns or now_ns - int(waits_s * 1e9)
    view = RecordView(
        RankIdentity(pid=100 + rank, rank=rank, world_size=4, armed_ns=1),
        beat_ns=now_ns,
        since_ns=now_ns if busy else since_ns,
        phase="compute" if busy else "communication",
        user=CodeLine("train.py", 7 if busy else 9, "main"),
        groups=[GroupProgress("0", 4, 40 if busy else 41, 40, 40, since_ns, True, "gloo")],
        mark=mark,
    )
    return RankSample(view, "S", 1.0)


def ranks_of(first: int, **how: float) -> NodeRanks:
    looks = {rank: look(rank, waits_s=how.get("waits_s", 0.0), busy=not how) for rank in (first, first + 1)}
    return NodeRanks(looks, WaitDetector().rank_states(time.monotonic_ns(), looks))


def roster_of(digest: NodeDigest, *, deaths: int = 0, quiet_s: float = 0.0) -> NodeRoster:
    """Node 1, with an address, heard twice; last so long ago."""
    now_ns = time.monotonic_ns() - int(quiet_s * 1e9)
    roster = NodeRoster()
    hello = NodeHello("h1", "h1", "192.0.2.1", [2, 3], now_ns, 0)
    for at_ns, told in ((now_ns - 10, digest), (now_ns, msgspec.structs.replace(digest, deaths=deaths))):
        heard_before = [ReceivedValue(1, now_ns - 10, at_ns, encode(told))]
        roster.take(
            TransportState(at_ns, True, 0, seat=0, hellos=[ReceivedValue(1, 1, 1, encode(hello))], digests=heard_before)
        )
    return roster
