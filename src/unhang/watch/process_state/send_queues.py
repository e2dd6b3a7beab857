"""Between which addresses what a process sends piles up: what ``/proc`` shows of its connections (Linux)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unhang.watch.process_state.unanswered_connections import PROC, connections

EVERY_S = 0.1
MOSTLY = 0.5
MIN_TIMES = 5
"""Fewer samples of the queues tell nothing."""
MAX_WAYS = 64

AddressPair = tuple[str, str]
"""(own address, the other one's)."""


@dataclass(slots=True)
class SendQueues:
    """Samples the connections of ``pids`` (by rank) again and again. Addresses of the machine itself do not count."""

    pids: Mapping[int, int]
    proc: Path = PROC
    times: int = 0
    _full: dict[int, Counter[AddressPair]] = field(default_factory=dict)
    _own: dict[int, set[str]] = field(default_factory=dict)

    def watch(self, seconds: float) -> None:
        """Sample for so long."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            self.sample()
            time.sleep(min(EVERY_S, max(0.0, left_s)))

    def sample(self) -> None:
        """Read the queues of all connections once."""
        self.times += 1
        for rank, pid in self.pids.items():
            found = [one for one in connections(pid, proc=self.proc) if one.open and one.own[0] != one.peer[0]]
            self._own.setdefault(rank, set()).update(one.own[0] for one in found)
            self._full.setdefault(rank, Counter()).update(
                {(one.own[0], one.peer[0]) for one in found if one.unsent > 0}
            )

    def addresses(self, rank: int) -> list[str]:
        """Of this rank, towards other machines."""
        return sorted(self._own.get(rank, ()))[:MAX_WAYS]

    def piled_up(self, rank: int) -> list[str]:
        """``OWN>OTHER``: where something waited to be sent, or to be taken, at most of the samples."""
        if self.times < MIN_TIMES:
            return []
        counts = self._full.get(rank, Counter[AddressPair]())
        return sorted(f"{own}>{peer}" for (own, peer), n in counts.items() if n >= MOSTLY * self.times)[:MAX_WAYS]
