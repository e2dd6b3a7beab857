"""Waiting for what a program under test brings about."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], limit_s: float = 60.0) -> None:
    """Until it holds; the test fails when it does not within ``limit_s``."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not come about in time")
        time.sleep(0.02)
