"""Ranks as their records show them, and nodes as their digests tell of them."""

from __future__ import annotations

import time

import msgspec

from unhang.records.record_views import GroupCount, Identity, MarkedPhase, Place, RecordView
from unhang.watch.job.detection import Detector, RankLook
from unhang.watch.nodes.node_roster import Roster
from unhang.watch.nodes.rank_digest import Digest, Hello, NodeRanks, pack
from unhang.watch.nodes.transport.mailbox import Heard, News


def look(
    rank: int, *, waits_s: float = 0.0, since_ns: int = 0, busy: bool = False, mark: MarkedPhase | None = None
) -> RankLook:
    now_ns = time.monotonic_ns()
    since_ns = since_ns or now_ns - int(waits_s * 1e9)
    view = RecordView(
        Identity(pid=100 + rank, rank=rank, world_size=4, armed_ns=1),
        beat_ns=now_ns,
        since_ns=now_ns if busy else since_ns,
        phase="compute" if busy else "communication",
        user=Place("train.py", 7 if busy else 9, "main"),
        groups=[GroupCount("0", 4, 40 if busy else 41, 40, 40, since_ns, True, "gloo")],
        mark=mark,
    )
    return RankLook(view, "S", 1.0)


def ranks_of(first: int, **how: float) -> NodeRanks:
    looks = {rank: look(rank, waits_s=how.get("waits_s", 0.0), busy=not how) for rank in (first, first + 1)}
    return NodeRanks(looks, Detector().see(time.monotonic_ns(), looks))


def roster_of(digest: Digest, *, deaths: int = 0, quiet_s: float = 0.0) -> Roster:
    """Node 1, with an address, heard twice; last so long ago."""
    now_ns = time.monotonic_ns() - int(quiet_s * 1e9)
    roster = Roster()
    hello = Hello("h1", "h1", "192.0.2.1", "/x", [2, 3], [1, 2], 4, now_ns, 0)
    for at_ns, told in ((now_ns - 10, digest), (now_ns, msgspec.structs.replace(digest, steps=9, deaths=deaths))):
        heard_before = [Heard(1, now_ns - 10, at_ns, pack(told))]
        roster.take(News(at_ns, True, 0, seat=0, hellos=[Heard(1, 1, 1, pack(hello))], digests=heard_before))
    return roster
