"""Steps that grow slower are dated; noise, spikes, warm-up, evaluation and a pace that recovers are not."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from unhang.facts.pace_change import StepChange, find_step_change


def history(
    pace: Callable[[int], float], *, length: int = 120, noise: float = 0.1, seed: int = 0
) -> list[tuple[int, float]]:
    rng = random.Random(seed)
    return [(10 * (i + 1), pace(i) * rng.uniform(1 - noise, 1 + noise)) for i in range(120)]


def found(pace: Callable[[int], float], **how: float) -> list[StepChange]:
    changes = [find_step_change(history(pace, seed=seed, **how)) for seed in range(20)]  # type: ignore[arg-type]
    return [change for change in changes if change is not None]


@pytest.mark.parametrize("at", [12, 60, 100])
def test_a_longer_pace_is_dated(at: int) -> None:
    changes = found(lambda i: 0.4 if i < at else 0.7)

    assert len(changes) == 20
    assert all(abs(change.step - 10 * at) <= 30 for change in changes)
    assert all(abs(c.before_s - 0.4) < 0.04 and abs(c.since_s - 0.7) < 0.06 for c in changes)


def test_a_pace_that_climbs_slowly_is_dated_where_it_began_to() -> None:
    changes = found(lambda i: 0.4 if i < 50 else 0.4 + 0.02 * (i - 50))

    assert len(changes) == 20
    assert all(480 <= change.step <= 750 for change in changes)


@pytest.mark.parametrize(
    ("why", "pace"),
    [
        ("one pace", lambda i: 0.4),
        ("one slow step", lambda i: 9.0 if i == 80 else 0.4),
        ("a warm-up", lambda i: 3.0 if i < 15 else 0.4),
        ("an evaluation now and then", lambda i: 5.0 if i % 10 == 0 else 0.4),
        ("faster steps of an evaluation in between", lambda i: 0.1 if 40 <= i < 60 else 0.4),
        ("a slow stretch that is over", lambda i: 1.0 if 40 <= i < 80 else 0.4),
        ("a slow end, too short to tell", lambda i: 1.0 if i >= 115 else 0.4),
    ],
)
def test_what_only_looks_like_it(why: str, pace: Callable[[int], float]) -> None:
    assert found(pace) == [], why


def test_a_history_of_noise_has_no_change() -> None:
    assert found(lambda i: 0.4, noise=0.8) == []
