"""Laggards that stand at one place are one stall, with everyone who waits for them."""

from __future__ import annotations

from tests.facts.jobs import call, job, recording
from unhang.facts.build import build_facts
from unhang.facts.model import Stall

OPEN = "scheduled"


def stalls_of(*last: str, groups: dict[str, tuple[int, ...]] | None = None) -> tuple[Stall, ...]:
    """``w``: waits at 2; ``l``: has not entered it; a digit: has another group's call open as well."""
    world = groups or {"0": tuple(range(len(last)))}
    dumps = [
        recording(r, [call(1), *([call(2, state=OPEN, line=61)] if "w" in kind else [])], groups=world)
        for r, kind in enumerate(last)
    ]
    return build_facts(job(*dumps)).stalls


def test_one_laggard_has_all_others_as_waiters() -> None:
    (stall,) = stalls_of("w", "l", "w", "w")

    assert (stall.laggards, stall.waiters, stall.direct_waiters) == ((1,), (0, 2, 3), (0, 2, 3))
    assert (stall.group, stall.position, stall.reason) == ("0", 2, "not-entered")


def test_the_call_is_a_waiters_call() -> None:
    (stall,) = stalls_of("l", "w", "w")

    assert stall.call is not None
    assert (stall.call.position, stall.call.where and stall.call.where.line) == (2, 61)


def test_laggards_at_one_place_are_one_stall() -> None:
    (stall,) = stalls_of("l", "w", "w", "l")

    assert stall.laggards == (0, 3)


def test_nobody_waits_and_there_is_no_stall() -> None:
    assert stalls_of("l", "l", "l") == ()


def test_waiters_through_another_group_are_waiters_but_not_direct() -> None:
    middle = [call(1), call(1, group="1"), call(2, group="1", state=OPEN)]
    facts = build_facts(
        job(
            recording(0, [call(1), call(2, state=OPEN)], groups={"0": (0, 1)}),
            recording(1, middle, groups={"0": (0, 1), "1": (1, 2)}),
            recording(2, [call(1, group="1")], groups={"1": (1, 2)}),
        )
    )

    (stall,) = facts.stalls
    assert (stall.laggards, stall.waiters, stall.direct_waiters) == ((2,), (0, 1), (1,))
