"""One bad member of many is found in two rounds, whichever it is."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from unhang.check.probe.probe_jobs import all_pairs_rounds, first_round, neighbour_rounds, second_round
from unhang.check.probe_results.probe_results import ProbeResult, SuspectRound


def outcome(groups: tuple[tuple[int, ...], ...], bad: set[int]) -> SuspectRound:
    return SuspectRound(groups, tuple(group for group in groups if set(group) & bad))


def rounds_with(members: int, bad: set[int]) -> tuple[SuspectRound, ...]:
    first = outcome(first_round(range(members)), bad)
    return first, outcome(second_round(first.groups, first.failed), bad)


def guilty(rounds: tuple[SuspectRound, ...], members: int) -> set[int]:
    return set(ProbeResult("gloo", ("h",) * members, (), 1.0, rounds=rounds).guilty)


@given(st.integers(4, 300).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count - 1))))
def test_one_bad_member_is_found_in_two_rounds(drawn: tuple[int, int]) -> None:
    members, bad = drawn

    assert guilty(rounds_with(members, {bad}), members) == {bad}


@given(st.integers(4, 60).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=n))))
def test_nobody_who_works_is_ever_blamed(drawn: tuple[int, set[int]]) -> None:
    members, bad = drawn

    assert guilty(rounds_with(members, bad), members) <= bad


@given(st.integers(0, 2))
def test_of_three_the_bad_one_is_found_pair_by_pair(bad: int) -> None:
    rounds = tuple(outcome(groups, {bad}) for groups in all_pairs_rounds(range(3)))

    assert guilty(rounds, 3) == {bad}


@given(st.integers(2, 40))
def test_every_member_stands_in_exactly_one_group_of_the_first_round(members: int) -> None:
    groups = first_round(range(members))

    assert sorted(member for group in groups for member in group) == list(range(members))
    assert all(len(group) in (2, 3) for group in groups)


@given(st.integers(2, 20))
def test_every_pair_meets_once_and_nobody_is_in_two_places(members: int) -> None:
    rounds = all_pairs_rounds(range(members))

    met = [tuple(sorted(pair)) for pairs in rounds for pair in pairs]
    assert sorted(met) == list(combinations(range(members), 2))
    for pairs in rounds:
        busy = [member for pair in pairs for member in pair]
        assert len(busy) == len(set(busy))


@given(st.integers(3, 200))
def test_two_rounds_of_neighbours_reach_everybody(members: int) -> None:
    rounds = neighbour_rounds(range(members))

    assert len(rounds) == 2
    assert {member for pairs in rounds for pair in pairs for member in pair} == set(range(members))
    for pairs in rounds:
        busy = [member for pair in pairs for member in pair]
        assert len(busy) == len(set(busy))
