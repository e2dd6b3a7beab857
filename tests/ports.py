"""A port for a program under test."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_CHANCE = random.SystemRandom()  # two tests at once must not be led to the same one


def free_port() -> int:
    """A port on which nobody listens, below those that connections get by themselves: none takes it meanwhile."""
    for _ in range(100):
        port = _CHANCE.randrange(20_000, 32_000)
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port))
            return port
    raise AssertionError("every port is taken")
