"""How the harness of the live jobs judges a straggler, and a healthy job that looks like one."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.live_jobs import is_named_in_time, is_silent

TRUTH = {"ranks": [1], "phase": "data", "phase_accept": ["compute"], "when_s": 20}


def held(second: float, status: str = "slow", phase: str = "data", ranks: tuple[int, ...] = (1,)) -> tuple[Any, ...]:
    return (second, status, phase, "slow-rank", "likely", ranks, "train.py:8")


@pytest.mark.parametrize(
    ("seen", "named"),
    [
        ([held(79.0)], True),
        ([held(81.0)], False),
        ([held(50.0, phase="save"), held(60.0, phase="compute")], True),
        ([held(50.0, ranks=(0,))], False),
        ([], False),
    ],
)
def test_a_straggler_is_to_be_named_with_its_phase_in_time(seen: list[tuple[Any, ...]], *, named: bool) -> None:
    assert is_named_in_time(TRUTH, seen) is named


def test_a_healthy_job_is_silent_where_nothing_was_ever_found() -> None:
    ended = (80.0, "healthy", None, "", "", (), "")

    assert is_silent([ended])
    assert not is_silent([held(30.0), ended])
    assert not is_silent([(30.0, "hang", None, "", "", (), ""), ended])
