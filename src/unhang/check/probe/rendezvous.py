"""Where the probe processes of several nodes meet: a store of torch that carries jobs out and lines back.

The first rank leads. It is reached as the job itself would reach it, at ``MASTER_ADDR:MASTER_PORT``; under torchrun
the store of its agent is there already.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # torch hides them from type checkers

from unhang.errors import UsageError
from unhang.program.launch.job_environment import LauncherTask

_PIECE_S = 1.0
_NAME = "unhang/probe"


@dataclass(frozen=True, slots=True)
class LauncherRank:
    """Rank, world size and store address that a launcher gave this process. ``hosted``: somebody else keeps the store
    (torchrun)."""

    rank: int
    world: int
    local_rank: int
    address: str
    port: int
    hosted: bool
    attempt: str = "0"
    """A store that outlives a restart holds what was said before it."""

    @classmethod
    def of(cls, task: LauncherTask, environment: Mapping[str, str]) -> LauncherRank:
        """The place of ``task``.

        Raises:
            UsageError: nothing says where the processes meet.
        """
        address, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "29500")
        if not address or not port.isdecimal():
            raise UsageError(f"{task.count} processes were started, but MASTER_ADDR and MASTER_PORT are not set")
        hosted = environment.get("TORCHELASTIC_USE_AGENT_STORE", "") == "True"
        attempt = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
        return cls(task.rank, task.count, task.local_rank, address, int(port), hosted, attempt)


class ProbeStore:
    """The store, and what is put into it. Every wait has a limit."""

    def __init__(self, seat: LauncherRank, *, limit_s: float) -> None:
        self.seat = seat
        self.tcp = TCPStore(
            seat.address,
            seat.port,
            None,
            seat.rank == 0 and not seat.hosted,
            timeout=timedelta(seconds=limit_s),
            wait_for_workers=False,
        )
        self._store = PrefixStore(f"{_NAME}/{seat.attempt}", self.tcp)

    def put(self, key: str, value: bytes) -> None:
        """Leave ``value`` for the others."""
        self._store.set(key, value)  # type: ignore[arg-type]  # bytes are taken as they are

    def take(self, key: str, *, limit_s: float) -> bytes | None:
        """What somebody left under ``key``; None when nobody has within the limit."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                self._store.wait([key], timedelta(seconds=max(0.01, min(_PIECE_S, deadline - time.monotonic()))))
            except RuntimeError:
                if time.monotonic() >= deadline:
                    return None
                continue
            value: bytes = self._store.get(key)
            return value


def local_store(limit_s: float) -> Any:
    """A store for the ranks of this machine alone, on a port the kernel chose."""
    return TCPStore(
        "127.0.0.1", 0, None, True, timeout=timedelta(seconds=limit_s), wait_for_workers=False, multi_tenant=False
    )


def island_store(address: str, port: int, name: str, limit_s: float) -> Any:
    """The part of the store in which one island of one job meets; opened by a rank after the fork."""
    tcp = TCPStore(address, port, None, False, timeout=timedelta(seconds=limit_s), wait_for_workers=False)
    return PrefixStore(f"{_NAME}/{name}", tcp)
