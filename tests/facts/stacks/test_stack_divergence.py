"""Where two stacks part."""

from __future__ import annotations

import pytest

from unhang.evidence.items import Frame
from unhang.facts.stacks.stack_divergence import diverge_in_library

MAIN = Frame("main", "/x/train.py", 30)
LOOP = Frame("run", "/x/train.py", 20)
LATER = Frame("run", "/x/train.py", 22)
TORN = Frame("run", '/x/train.p{"a":{"a":y', 22)
OF_TORCH = Frame("step", "/v/lib/python3.11/site-packages/torch/distributed/pipelining/schedules.py", 40)
FURTHER = Frame("step", "/v/lib/python3.11/site-packages/torch/distributed/pipelining/schedules.py", 44)


@pytest.mark.parametrize(
    ("first", "second", "unseen"),
    [
        ((LOOP, MAIN), (LOOP, MAIN), False),
        ((LOOP, MAIN), (LATER, MAIN), False),
        ((OF_TORCH, LOOP, MAIN), (FURTHER, LOOP, MAIN), True),
        ((LOOP, MAIN), (TORN, MAIN), True),
        ((LOOP, MAIN), (Frame("other", "/x/other.py", 3), MAIN), True),
    ],
    ids=["at one place", "at two lines of one function", "in a library", "in a torn frame", "in other functions"],
)
def test_a_line_of_the_program_tells_where_they_part(
    first: tuple[Frame, ...], second: tuple[Frame, ...], unseen: bool
) -> None:
    assert diverge_in_library(first, second) is unseen
