"""Who waits for whom, over all groups."""

from __future__ import annotations

from tests.facts.jobs import call, job, recording
from unhang.evidence.items import RecorderDump
from unhang.facts.build import build_facts
from unhang.facts.model import Facts, GroupFacts, GroupProgress, PendingCall, WaitEdge
from unhang.facts.waiting.wait_graph import build_wait_graph, wait_graph_of
from unhang.findings import Evidence, Source

OPEN = "scheduled"


def facts(*recordings: RecorderDump) -> Facts:
    return build_facts(job(*recordings))


def edge(waiter: int, awaited: int, group: str = "0") -> WaitEdge:
    return WaitEdge(waiter, awaited, group, 1, "not-entered")


def test_waiters_wait_for_the_rank_that_has_not_entered() -> None:
    world = {"0": (0, 1, 2)}
    graph = facts(
        recording(0, [call(1), call(2, state=OPEN)], groups=world),
        recording(1, [call(1), call(2, state=OPEN)], groups=world),
        recording(2, [call(1)], groups=world),
    ).graph

    assert (graph.roots, graph.waiters, graph.cycles) == ((2,), (0, 1), ())


def test_a_chain_over_groups_has_its_last_rank_as_root() -> None:
    first, second = {"0": (0, 1, 2), "1": (0, 1)}, {"0": (0, 1, 2), "2": (1, 2)}
    middle = {"0": (0, 1, 2), "1": (0, 1), "2": (1, 2)}
    graph = facts(
        recording(0, [call(1), call(1, group="1"), call(2, group="1", state=OPEN)], groups=first),
        recording(1, [call(1), call(1, group="1"), call(1, group="2"), call(2, group="2", state=OPEN)], groups=middle),
        recording(2, [call(1), call(1, group="2")], groups=second),
    ).graph

    assert graph.roots == (2,)


def test_two_groups_entered_crosswise_are_a_cycle_without_a_root() -> None:
    world = {"0": (0, 1), "1": (0, 1), "2": (0, 1)}
    done = [call(1, group="1"), call(1, group="2")]
    graph = facts(
        recording(0, [*done, call(2, group="1", state=OPEN)], groups=world),
        recording(1, [*done, call(2, group="2", state=OPEN)], groups=world),
    ).graph

    assert (graph.roots, graph.cycles) == ((), ((0, 1),))


def test_a_cycle_that_waits_for_a_root_is_none() -> None:
    graph = wait_graph_of([edge(0, 1), edge(1, 0), edge(1, 2)])

    assert (graph.roots, graph.cycles) == ((2,), ())


def test_two_cycles_are_two() -> None:
    graph = wait_graph_of([edge(0, 1), edge(1, 0), edge(2, 3), edge(3, 4), edge(4, 2)])

    assert graph.cycles == ((0, 1), (2, 3, 4))


def test_a_rank_whose_device_is_behind_is_the_laggard_though_it_enqueued_more() -> None:
    world = {"0": (0, 1, 2)}
    ahead = [call(1), call(2), call(3, state=OPEN)]
    behind = [call(1), call(2, state=OPEN), call(3, state=OPEN), call(4, state=OPEN)]
    graph = facts(
        recording(0, ahead, groups=world), recording(1, behind, groups=world), recording(2, ahead, groups=world)
    ).graph

    assert graph.roots == (1,)
    assert {e.reason for e in graph.edges} == {"device-behind"}


def test_silent_ranks_are_awaited_and_called_silent() -> None:
    world = {"0": (0, 1, 2)}
    graph = facts(recording(0, [call(1), call(2, state=OPEN)], groups=world)).graph

    assert [(e.waiter, e.awaited, e.reason) for e in graph.edges] == [(0, 1, "silent"), (0, 2, "silent")]


def _big_group(ranks: int, spoken: int) -> GroupFacts:
    def progress(rank: int) -> GroupProgress:
        pending = PendingCall("0", 41, None, "all_reduce", Evidence(Source(f"rank_{rank}"), "", rank), 8, "float")
        return GroupProgress(rank, 41 if rank else 40, 40, pending if rank else None, "dump")

    return GroupFacts(
        name="0",
        description="default_pg",
        members=tuple(range(ranks)),
        members_known=True,
        is_default=True,
        progress={rank: progress(rank) for rank in range(spoken)},
        silent=tuple(range(spoken, ranks)),
    )


def test_20_000_ranks_have_few_edges() -> None:
    graph = build_wait_graph({"0": _big_group(20_000, 20_000)}, {})
    assert graph.roots == (0,)
    assert len(graph.waiters) == 19_999

    half = build_wait_graph({"0": _big_group(20_000, 10_000)}, {})
    assert 0 in half.roots
    assert len(half.edges) < 1_000_000


def test_a_chain_of_20_000_ranks_needs_no_deep_stack() -> None:
    graph = wait_graph_of(edge(rank, rank + 1) for rank in range(20_000))

    assert graph.roots == (20_000,)
