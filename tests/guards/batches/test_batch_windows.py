"""The arithmetic of even_batches: from any lengths and windows, every rank takes the same number, and the right one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unhang.guards.batches.batch_windows import (
    LARGEST_WINDOW,
    WhenUneven,
    batches_due,
    decide_window,
    total_batches,
    window_for,
)

LENGTHS = st.lists(st.integers(0, 60), min_size=1, max_size=6)
WINDOWS = st.lists(st.integers(1, LARGEST_WINDOW), min_size=130, max_size=130)
WORDS = st.sampled_from(["stop", "pad"])


def take_all(lengths: list[int], windows: list[int], when_uneven: WhenUneven) -> tuple[int, bool]:
    """(batches every rank takes, whether ranks were found uneven), window by window."""
    left, taken, uneven = list(lengths), 0, False
    for window in windows:
        found = [min(window, own) for own in left]
        decision = decide_window(min(found), max(found), window, when_uneven)
        taken, uneven = taken + decision.take, uneven or decision.uneven
        left = [own - have for own, have in zip(left, found, strict=True)]
        if decision.last:
            return taken, uneven
    raise AssertionError("it never ends")


@given(LENGTHS, WINDOWS, WORDS)
def test_windows_come_to_the_shortest_or_the_longest(
    lengths: list[int], windows: list[int], when_uneven: WhenUneven
) -> None:
    taken, uneven = take_all(lengths, windows, when_uneven)

    assert taken == (max(lengths) if when_uneven == "pad" else min(lengths)) == total_batches(lengths, when_uneven)
    assert uneven == (len(set(lengths)) > 1)


@given(st.integers(1, LARGEST_WINDOW), st.integers(1, LARGEST_WINDOW))
def test_the_next_window_is_full_when_the_last_batch_of_this_one_goes_out(window: int, taken: int) -> None:
    read = [batches_due(window, place, taken) for place in range(taken)]

    assert read[-1] == window
    assert read == sorted(read)
    assert all(step <= -(-window // taken) for step in (b - a for a, b in zip([0, *read], read, strict=False)))


@given(st.floats(0, 1), st.floats(0, 10))
def test_a_window_is_never_wider_than_the_memory_for_it(cost_s: float, step_s: float) -> None:
    assert 1 <= window_for(cost_s, step_s) <= LARGEST_WINDOW


def test_short_steps_get_wide_windows_and_long_ones_none() -> None:
    assert window_for(200e-6, 0.3) == 1
    assert window_for(200e-6, 0.01) == 10
    assert window_for(200e-6, 0.001) == LARGEST_WINDOW
