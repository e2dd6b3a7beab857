"""Everyone joined the same collective and nobody finished it: only where that is really so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.facts.jobs import call, job, recording
from unhang.facts.build import build_facts
from unhang.facts.model import SymmetricStall


def found(*last: dict[str, Any] | None) -> tuple[SymmetricStall, ...]:
    world = {"0": tuple(range(len(last)))}
    dumps = [recording(r, [call(40), *([c] if c else [])], groups=world) for r, c in enumerate(last) if c != {}]
    return build_facts(job(*dumps)).symmetric


OPEN = call(41, state="scheduled")


def test_all_members_at_one_position_are_one_stall() -> None:
    (stall,) = found(OPEN, OPEN, OPEN)

    assert (stall.group, stall.position, stall.operation, stall.ranks) == ("0", 41, "all_reduce", (0, 1, 2))


@pytest.mark.parametrize(
    "odd",
    [
        None,  # has not entered
        {},  # left no dump
        call(41, "broadcast", state="scheduled"),
        call(41, state="scheduled", size=(9,)),
    ],
)
def test_one_odd_member_is_enough_against_it(odd: dict[str, Any] | None) -> None:
    assert found(OPEN, OPEN, odd) == ()


def test_a_rank_alone_is_no_stall_of_all() -> None:
    assert found(OPEN) == ()
