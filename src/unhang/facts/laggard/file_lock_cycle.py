"""A rank that waits for a lock on a file which another rank holds, while that one waits for it in a collective."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.laggard.own_work import is_idle_at_line
from unhang.facts.model import Facts, Stall
from unhang.wire.documents.bundle import HeldLock


@dataclass(frozen=True, slots=True)
class FileLockCycle:
    """``holder`` has ``lock``, by the kernel's word, and waits for those who want it. ``only``: it is the one lock that
    they may wait for; who asks again and again stands in no line, so that any other lock file may be meant."""

    lock: HeldLock
    holder: int
    only: bool


def file_lock_cycle(facts: Facts, stall: Stall) -> FileLockCycle | None:
    """None where the laggards wait for something else, or for a lock that no rank has which waits for them."""
    waiters = {facts.ranks[rank].pid: rank for rank in stall.waiters if facts.ranks[rank].pid is not None}
    for rank in stall.laggards:
        known = facts.ranks[rank]
        named = known.activity is not None and known.activity.what == "file-lock"
        # who asks again and again sleeps in between
        if not named and not is_idle_at_line(known) and (known.activity is None or known.activity.what != "sleep"):
            return None
        host = {lock.pid: lock for lock in known.awaits.locks if lock.pid in waiters}
        for pid, lock in host.items():
            if facts.ranks[waiters[pid]].host == known.host:
                return FileLockCycle(lock, waiters[pid], named and len(known.awaits.locks) == 1)
    return None
