"""What a shape says of a line holds for every line that differs in its digits alone."""

from __future__ import annotations

import re

import pytest

from unhang.evidence.logs.line_shapes import MAX_SHAPES, LineShapes
from unhang.evidence.logs.lines.progress import find_step
from unhang.knowledge.failure_language import may_state_failure

LINES = [
    "step 12/100 loss 2.13",
    "epoch 3, iter 0",
    "rank 3 of 8: all done",
    "world_size: 8",
    "error code 507010 from the card",
    "EI0003: parameter is wrong",
    "loading shard 7 from /data/3",
    "-----",
    "frame #12: main + 0x3",
    "launching 4 processes with --nproc_per_node 4",
]


@pytest.mark.parametrize("line", LINES)
def test_digits_change_no_shape(line: str) -> None:
    shapes = LineShapes()

    assert shapes.of(line) == shapes.of(re.sub(r"\d", "7", line)) == LineShapes().of(line)


@pytest.mark.parametrize("line", LINES)
def test_a_shape_leaves_nothing_out(line: str) -> None:
    shape = LineShapes().of(line)

    assert shape.step == (find_step(line) is not None)
    assert shape.complaint or not may_state_failure(line)


def test_a_shape_says_what_may_stand_in_a_line() -> None:
    shapes = LineShapes()

    assert shapes.of("world_size: 8").start_or_end
    assert shapes.of("rank 3 of 8").rank
    assert not shapes.of("-----").words
    assert not any(shapes.of("loading shard 7")[:3])


def test_not_all_shapes_of_a_log_are_kept() -> None:
    shapes = LineShapes()
    for number in range(MAX_SHAPES + 10):
        shapes.of("".join(chr(97 + number // 26**place % 26) for place in range(4)))

    assert len(shapes._known) <= MAX_SHAPES
