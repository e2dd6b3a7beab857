"""One late node of three holds a verdict back; one of a thousand does not, unless its ranks may be to blame."""

from __future__ import annotations

import pytest

from unhang.watch.job.wait_detection import RankState
from unhang.watch.nodes.node_roster import RemoteNode, could_change_blame
from unhang.wire.documents.live_state import RankActivity

WAITS = RankState(RankActivity.WAITING, 1, stuck=False, in_init=False, rhythm=True)
STANDS = RankState(RankActivity.IDLE, None, stuck=True, in_init=False, rhythm=True)
WORKS = RankState(RankActivity.BUSY, None, stuck=False, in_init=False, rhythm=True)


def nodes(count: int, **others: RankState) -> list[RemoteNode]:
    """One rank each, which waits. ``others``: what ``r7`` does instead."""
    return [RemoteNode(n, met=True, states={n: others.get(f"r{n}", WAITS)}) for n in range(count)]


def held_back(every: list[RemoteNode], *late: int) -> bool:
    states = {rank: state for node in every for rank, state in node.states.items()}
    return could_change_blame([every[number] for number in late], every, states)


def test_nobody_late_is_no_doubt() -> None:
    assert not held_back(nodes(3, r1=STANDS))


def test_one_of_few_may_always_be_to_blame() -> None:
    assert held_back(nodes(3, r1=STANDS), 2)


def test_some_of_a_thousand_that_waited_change_nothing() -> None:
    assert not held_back(nodes(1000, r7=STANDS), 11, 500, 999)


@pytest.mark.parametrize(
    ("others", "late"),
    [
        pytest.param({"r7": STANDS}, (7,), id="the one that stands is the late one"),
        pytest.param({"r7": STANDS, "r9": WORKS}, (9,), id="it worked when it was last heard"),
        pytest.param({"r7": WORKS}, (9,), id="who makes them wait may come by itself"),
        pytest.param({}, (9,), id="all wait: it may be cut off"),
        pytest.param({"r7": STANDS}, tuple(range(20, 50)), id="they are many"),
    ],
)
def test_who_may_be_to_blame_is_waited_for(others: dict[str, RankState], late: tuple[int, ...]) -> None:
    assert held_back(nodes(1000, **others), *late)


def test_a_node_that_told_of_no_rank_may_be_to_blame() -> None:
    every = [*nodes(1000, r7=STANDS), RemoteNode(1000, met=True)]

    assert held_back(every, 1000)
    assert not held_back(every, 11)
