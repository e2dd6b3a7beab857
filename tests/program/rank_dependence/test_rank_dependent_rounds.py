"""What of the rank makes a loop run more often on one rank than on another, and whether that is settled beforehand."""

from __future__ import annotations

import ast
from textwrap import indent

import pytest

from unhang.program.rank_dependence.rank_dependent_rounds import LOOPS, RankBound, rank_bounds
from unhang.program.syntax.syntax_tree import Program, parse_program

START = """import torch.distributed as dist
def train(args, loader, n):
    rank = dist.get_rank()
    bad = 0
    step = 0
"""


def bounds(body: str) -> list[RankBound]:
    """Of the outermost loop of a function that knows its rank."""
    program = parse_program(START + indent(body, "    "))
    assert isinstance(program, Program)
    function = next(node for node in program.tree.body if isinstance(node, ast.FunctionDef))
    loop = next(node for node in function.body if isinstance(node, LOOPS))
    return list(rank_bounds(program, loop, (program.tree, function)))


def told(body: str) -> list[tuple[str, str]]:
    return [(bound.kind, bound.hangs_on) for bound in bounds(body)]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("for step in range(99):\n    if step >= n + 40 * (1 - rank):\n        break\n    work()", "break"),
        ("for step in range(99):\n    work()\n    if rank == 0 and step == n:\n        break", "break"),
        ("for i, batch in enumerate(loader):\n    if i == args.steps - rank:\n        return\n    work()", "return"),
        ("while True:\n    work()\n    step += 1\n    if step == 12 and rank:\n        return", "return"),
        (
            "while True:\n    step = step + 1\n    if rank == 0:\n        if step > len(loader):\n            break",
            "break",
        ),
        ("for step in range(9):\n    with ctx:\n        if rank == 1 and step == 3:\n            exit(0)", "exit"),
        ("for step in range(9):\n    if rank != 0:\n        pass\n    elif step == 3:\n        break", "break"),
        ("for step in range(10 + rank):\n    work()", "loop"),
        ("while step < n + rank:\n    step += 1", "loop"),
    ],
)
def test_the_rank_settles_the_rounds(body: str, kind: str) -> None:
    assert told(body) == [(kind, "round")]


@pytest.mark.parametrize(
    "test",
    [
        "rank == 0 and loss < 0.1",
        "rank == 0 and loss.item() < 0.1",
        "rank == 0 and bad >= 3",
        "rank == 0 and should_stop(step)",
        "rank == 0 and batch.done",
        "rank == 0 and self.bad > step",
    ],
)
def test_what_a_rank_finds_out_is_no_bound(test: str) -> None:
    body = "for step, batch in enumerate(loader):\n    loss = work(batch)\n    if loss > 9:\n        bad += 1\n"

    assert told(f"{body}    if {test}:\n        break") == [("break", "finding")]


def test_the_rank_alone_leaves_in_the_first_round() -> None:
    assert told("for step in range(9):\n    if rank != 0:\n        break\n    work()") == [("break", "rank")]


@pytest.mark.parametrize(
    "body",
    [
        "for step in range(9):\n    if rank == 0 and step == 3:\n        continue\n    work()",
        "for step in range(9):\n    if step == n:\n        break\n    work()",
        "for step in range(9):\n    for i in range(3):\n        if rank == i:\n            break\n    work()",
        "for step in range(9):\n    if rank == 0 and step == 3:\n        raise ValueError\n    work()",
        "for step in range(9):\n    def stop():\n        if rank == 0 and step == 3:\n            return\n    work()",
        "for step in range(9):\n    if rank >= 0 and step == 3:\n        break\n    work()",
    ],
)
def test_these_leave_all_ranks_the_same_rounds(body: str) -> None:
    assert bounds(body) == []


def test_the_tests_around_a_jump_are_told_together() -> None:
    (bound,) = bounds("for step in range(9):\n    if rank == 0:\n        if step == 3:\n            break\n    work()")

    assert (bound.test, bound.line, bound.sure) == ("rank == 0 and step == 3", 9, True)


def test_a_name_alone_is_not_sure() -> None:
    program = parse_program(
        "def train(rank):\n    for step in range(9):\n        if step == 3 - rank:\n            break\n"
    )
    assert isinstance(program, Program)
    function = program.tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    loop = function.body[0]
    assert isinstance(loop, ast.For)

    assert [bound.sure for bound in rank_bounds(program, loop, (program.tree, function))] == [False]


@pytest.mark.parametrize(
    ("header", "alone"),
    [
        ("for step in range(99)", True),
        ("for step in range(args.steps)", True),
        ("while True", True),
        ("for step, batch in enumerate(loader)", False),
        ("for step in range(len(loader))", False),
        ("while step < len(loader)", False),
    ],
)
def test_data_may_end_a_loop_as_well(header: str, alone: bool) -> None:
    (bound,) = bounds(f"{header}:\n    step += 1\n    if rank == 0 and step == 3:\n        break\n    work()")

    assert bound.alone is alone
