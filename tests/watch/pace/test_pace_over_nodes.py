"""Nodes of one rank each tell each other how much theirs wait: together they know which one is slow."""

from __future__ import annotations

import time

import msgspec
import pytest
from msgspec.msgpack import encode

from tests.watch.nodes.seen_ranks import ranks_of
from unhang.watch.nodes.rank_digest import NodeDigest, decoded, digest_of
from unhang.watch.pace.pace_over_nodes import NodePace, SlowestRank, find_slowest_rank


def pace(looks: int = 120, rank: int = 0, waits: int = 70, after: int = 80, lost: int = 0) -> NodePace:
    return NodePace(looks, rank, waits, after, lost)


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (pace(), {1: pace(rank=2, waits=5), 2: pace(rank=4)}, SlowestRank(1, 2, changed=False)),
        (pace(waits=5), {1: pace(rank=2), 2: pace(rank=4)}, SlowestRank(None, 0, changed=False)),
        (pace(waits=5, after=-1), {1: pace(rank=2, waits=70, after=-1)}, SlowestRank(None, 0, changed=False)),
        (pace(waits=20, after=40, lost=20), {1: pace(rank=2, waits=40)}, SlowestRank(None, 0, changed=True)),
        (pace(waits=5, after=6), {1: pace(rank=2, waits=80)}, None),  # two of its node do not wait
        (pace(waits=5), {1: pace(rank=2, waits=6)}, None),  # one here and one there do not
        (pace(waits=60), {1: pace(rank=2, waits=70)}, None),
        (pace(waits=20, after=40), {1: pace(rank=2, waits=40)}, None),  # a little less, and steps are as they were
        (pace(waits=5), {1: pace(rank=2), 2: None}, None),  # a node has not told
        (pace(waits=5), {1: pace(rank=2, looks=20)}, None),
        (None, {1: pace(rank=2, waits=5)}, None),
        (pace(lost=60), {1: pace(rank=2, lost=50)}, SlowestRank(None, None, changed=True)),
        (pace(lost=60), {1: pace(rank=2, lost=50), 2: pace(rank=4)}, None),
    ],
)
def test_the_rank_that_all_nodes_wait_for(
    own: NodePace | None, others: dict[int, NodePace | None], expected: SlowestRank | None
) -> None:
    assert find_slowest_rank(own, others) == expected


def test_what_a_node_tells_of_its_pace_takes_a_few_bytes_and_may_be_anything() -> None:
    digest = digest_of(time.monotonic_ns(), ranks_of(0), deaths=0, over=0, whole=False)
    with_pace = msgspec.structs.replace(digest, pace=pace(rank=9_999))

    assert len(encode(with_pace)) - len(encode(digest)) <= 7
    assert decoded(encode(with_pace), NodeDigest) == with_pace
    for wrong in (pace(rank=-1), pace(waits=101), pace(after=-2), pace(lost=200)):
        assert decoded(encode(msgspec.structs.replace(digest, pace=wrong)), NodeDigest) is None
