"""Limits of this machine: shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unhang.checks.machine import Machine
from unhang.checks.plan import Plan
from unhang.facts.preflight.limits import SharedMemory
from unhang.facts.preflight.situation import Look

NAME = "limits"
LIMIT_S = 5.0


def look(machine: Machine, plan: Plan) -> Iterator[tuple[type, Look[Any]]]:  # noqa: ARG001 - every check takes both
    """Look at ``/dev/shm``."""
    space = machine.space("/dev/shm")
    yield (
        SharedMemory,
        (Look(SharedMemory(space.found.size, space.found.free)) if space.found else Look(because=space.because)),
    )
