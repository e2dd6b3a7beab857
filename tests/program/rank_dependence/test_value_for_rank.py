"""What a simple test on the rank gives for one rank, and which ranks it singles out."""

from __future__ import annotations

import pytest

from unhang.program.rank_dependence.value_for_rank import singled_out_ranks
from unhang.program.rank_dependence.value_for_rank import test_value as value_of


@pytest.mark.parametrize(
    ("test", "true_for", "false_for"),
    [
        ("rank == 0", {0}, {1, 3}),
        ("0 == rank", {0}, {1, 3}),
        ("rank != 0", {1, 3}, {0}),
        ("not rank == 0", {1, 3}, {0}),
        ("rank < 2", {0, 1}, {2, 3}),
        ("rank <= 2", {0, 2}, {3}),
        ("rank > 1", {2, 3}, {0, 1}),
        ("rank >= 1", {1, 3}, {0}),
        ("rank in (0, 1)", {0, 1}, {2, 3}),
        ("rank in [0, 1]", {0, 1}, {2, 3}),
        ("rank not in {0, 1}", {2, 3}, {0, 1}),
        ("rank % 2 == 0", {0, 2}, {1, 3}),
        ("rank // 2 == 1", {2, 3}, {0, 1}),
        ("rank == world_size - 1", {3}, {0, 2}),
        ("rank != world - 1", {0, 2}, {3}),
        ("dist.get_rank() == 0", {0}, {1}),
        ("self.rank == 0", {0}, {1}),
        ("dist.get_rank() != dist.get_world_size() - 1", {0, 2}, {3}),
        ("args.rank == 0 and True", {0}, {1}),
        ("rank == 0 or rank == 2", {0, 2}, {1, 3}),
        ("rank + 1 == 2", {1}, {0, 2}),
        ("0 < rank < 2", {1}, {0, 2, 3}),
        ("accelerator.process_index == 0", {0}, {1}),
        ("rank == 0 and step % 100 == 0", set(), {1, 2, 3}),
        ("rank == 0 or debug", {0}, set()),
    ],
)
def test_simple_tests_on_the_rank_are_worked_out(test: str, true_for: set[int], false_for: set[int]) -> None:
    assert {rank for rank in true_for if value_of(test, rank, 4) is True} == true_for
    assert {rank for rank in false_for if value_of(test, rank, 4) is False} == false_for


@pytest.mark.parametrize(
    "test",
    [
        "step == 0",
        "local_rank == 0",
        "dist.get_rank(group) == 0",
        "is_main(rank)(0)",
        "rank",
        "rank == leader",
        "rank % 0 == 1",
        "rank == 0 and debug",
        "lambda: rank",
        "rank ==",
        "",
        "(" * 300,
    ],
)
def test_what_cannot_be_worked_out_is_not_guessed(test: str) -> None:
    assert value_of(test, 0, 4) is None


def test_without_a_world_size_a_test_on_it_is_open() -> None:
    assert value_of("rank == world_size - 1", 3, None) is None


@pytest.mark.parametrize(
    ("test", "world_size", "odd"),
    [
        ("rank == 1 and batch > 50", 3, {1}),
        ("batch is None or (self.rank == 1 and batch > 50)", 3, {1}),
        ("rank != 0", 4, {0}),
        ("rank < 2", 4, set()),
        ("batch > 50", 4, set()),
        ("rank == 1", None, set()),
    ],
)
def test_the_test_singles_out_the_odd_ranks(test: str, world_size: int | None, odd: set[int]) -> None:
    assert singled_out_ranks(test, world_size) == odd
