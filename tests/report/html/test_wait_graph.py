"""The drawing of who waits for whom."""

from __future__ import annotations

from tests.report import fact_samples
from unhang.facts.model import WaitEdge, WaitForGraph
from unhang.report.html.wait_graph import Drawing, wait_graph
from unhang.report.localizer import Localizer


def drawn(*pairs: tuple[int, int], roots: tuple[int, ...] = ()) -> Drawing:
    facts = fact_samples.facts(64)
    facts.graph = WaitForGraph(tuple(WaitEdge(a, b, "0", 7, "not-entered") for a, b in pairs), roots, (), ())
    return wait_graph(facts, frozenset(roots), Localizer())


def told(drawing: Drawing) -> list[str]:
    return [arrow.sentence for arrow in drawing.arrows]


def test_equal_waiters_are_one_box() -> None:
    drawing = wait_graph(fact_samples.facts(1000), frozenset({3}), Localizer())
    assert [box.title for box in drawing.boxes] == ["rank 3", "ranks 0-2, 4-999"]
    assert [box.laggard for box in drawing.boxes] == [True, False]
    assert told(drawing) == ["ranks 0-2, 4-999 wait for rank 3"]


def test_waiters_stand_left_of_those_they_wait_for() -> None:
    drawing = drawn((1, 0), (2, 1), roots=(0,))
    assert [box.x for box in sorted(drawing.boxes, key=lambda box: box.ranks, reverse=True)] == [10, 382, 754]


def test_a_long_chain_runs_down_so_that_it_stays_legible() -> None:
    drawing = drawn((1, 0), (2, 1), (3, 2), (4, 3), roots=(0,))
    assert len({box.x for box in drawing.boxes}) == 1
    assert drawing.boxes[0].y == max(box.y for box in drawing.boxes)
    assert drawing.width < 400


def test_what_a_chain_tells_is_not_drawn_twice() -> None:
    assert sorted(told(drawn((1, 0), (2, 1), (2, 0), roots=(0,)))) == [
        "rank 1 waits for rank 0",
        "rank 2 waits for rank 1",
    ]


def test_a_cycle_is_a_ring_and_keeps_every_arrow() -> None:
    drawing = wait_graph(fact_samples.cycle(), frozenset(), Localizer())
    assert drawing.cycle
    assert len(drawing.boxes) == len(drawing.arrows) == 3
    assert min(box.y for box in drawing.boxes) < 40


def test_replicas_fold_when_there_are_many() -> None:
    drawing = drawn(*((rank, rank - 16) for rank in range(16, 48)))
    assert [box.title for box in drawing.boxes] == ["ranks 0-15", "ranks 16-31", "ranks 32-47"]
    assert len(drawing.arrows) == 2


def test_a_large_ring_says_that_they_wait_for_each_other() -> None:
    drawing = drawn(*((rank, (rank + 1) % 64) for rank in range(64)))
    assert told(drawing) == ["ranks 0-63 wait for each other"]


def test_nobody_waiting_draws_nothing() -> None:
    assert drawn().boxes == ()
