"""What waits to be written is bounded, and the newest of each curve is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from unhang.guards.exchange.call_queue import CallQueue, QueuedCall, curve_key, newest_only_matcher

torch = pytest.importorskip("torch")


@given(
    tags=some.lists(some.sampled_from("abcde"), max_size=300),
    most=some.integers(min_value=6, max_value=40),
)
def test_what_waits_is_bounded_and_keeps_the_newest_of_each_curve(tags: list[str], most: int) -> None:
    waiting = CallQueue(most, 10**9, newest_only_matcher(False))
    for number, tag in enumerate(tags):
        waiting.put(QueuedCall("add_scalar", (tag, number), {}, curve_key("add_scalar", (tag, number), {}), 1, number))
        assert len(waiting) <= most

    left = [call.args for call in iter(waiting.take, None)]

    assert [number for _, number in left] == sorted(number for _, number in left)
    newest = {tag: number for number, tag in enumerate(tags)}
    assert dict(left) == newest
    assert len(left) + waiting.thinned == len(tags)
    assert waiting.held == 0


def test_bytes_are_bounded_too() -> None:
    waiting = CallQueue(10**6, 10_000, newest_only_matcher(False))
    for number in range(1000):
        waiting.put(QueuedCall("add_histogram", ("w", number), {}, ("add_histogram", "w"), 500, number))

    assert waiting.held <= 10_000
    assert [call.args[1] for call in iter(waiting.take, None)][-1] == 999
