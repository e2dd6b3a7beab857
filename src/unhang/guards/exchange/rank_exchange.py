"""Where the ranks of a job meet out of band: every rank says something, every rank learns what all said, or who is
missing. Small words on the job's store, no collective; every wait has a limit.

The last to come collects for all, so nobody asks for each of thousands of ranks: five short operations a rank and
round. Who has waited its limit settles the round for all, once: whoever comes later learns that it is over.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from unhang.errors import StoreLost, UsageError
from unhang.guards.call_site import called_from
from unhang.guards.exchange import packed
from unhang.guards.exchange.peer_stacks import PeerProcesses, ranks_on_machine
from unhang.guards.exchange.store_connection import (
    Store,
    StoreConnection,
    connect_store,
    is_served_by_rank,
    store_address,
    unwrap_prefixes,
)

MAX_BYTES = 1 << 16
"""A rank says at most so much at once: send a fingerprint, not the thing."""
SETTLE_LIMIT_S = 20.0
READERS_LIMIT_S = 2.0
FIRST_PAUSE_S = 0.0002
LONGEST_PAUSE_S = 0.05
ASKED_A_SECOND = 4000
"""All ranks together ask the store at most so often while they wait: a hundredth of what it can answer."""
PROGRESS_S = 1.0
PROGRESS_A_SECOND = 1000
KEYS_AT_ONCE = 256
SMALL_WORLD = 64
"""In larger ones a rank asks only for its own machine's who has not come yet."""
Progress = Callable[[float, tuple[int, ...]], None]
"""Called with the seconds waited and the ranks that have not come, as far as this rank knows."""


@dataclass(frozen=True, slots=True)
class GatheredValues:
    """What the ranks said. ``left_out``: they said too much in all (1 MiB), their values are not in ``values``.
    ``turn``: the round, for :meth:`RankExchange.stacks_of`."""

    values: dict[int, bytes]
    missing: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()
    turn: str = ""


@dataclass(frozen=True, slots=True)
class LastExchange:
    """Where a rank last met others. ``where``: file:line of the call; ``ago_s``: since then, by its own clock."""

    topic: str
    number: int
    where: str
    ago_s: float


class RankExchange:
    """The ranks of one default group, on its store. Every rank calls the same topics in the same order."""

    def __init__(self, store: Store, rank: int, world_size: int) -> None:
        self.rank = rank
        self.world_size = world_size
        self._connection = StoreConnection(lambda: connect_store(store))
        self._kept_by_a_rank = is_served_by_rank(store)
        self.peers: PeerProcesses | None = None
        self._pid = os.getpid()
        self._rounds: Counter[str] = Counter()
        self._finished: dict[str, list[str]] = {}
        self._longest_pause_s = max(LONGEST_PAUSE_S, world_size / ASKED_A_SECOND)
        self._progress_s = max(PROGRESS_S, world_size / PROGRESS_A_SECOND)

    def gather(self, topic: str, mine: bytes, *, timeout_s: float, progress: Progress | None = None) -> GatheredValues:
        """Say ``mine`` and learn what all ranks said for this ``topic`` at this turn (the n-th call of the topic).

        Waits ``timeout_s`` at most for ranks to come, and a little for the answer; no longer once a rank of this
        machine has died. ``progress(waited_s, absent)`` is called about once a second while it waits.

        Raises:
            StoreLost: the ranks cannot meet any more.
        """
        if len(mine) > MAX_BYTES:
            raise UsageError(f"{topic}: {len(mine)} bytes are too many to send to all ranks; at most {MAX_BYTES}")
        base = self._enter(topic, mine)
        if self._came(base, 1) == self.world_size:
            settled = self._settle(base)
        else:
            settled = self._wait_settled(base, timeout_s, progress)
        gathered = GatheredValues(*packed.unpack(settled), base)
        self._let_all_read(base, self.world_size - len(gathered.missing))
        if not gathered.missing:
            self._clean_up(topic, base)
        return gathered

    def abort_turn(self, topic: str, mine: bytes) -> None:
        """Publish ``mine`` for the next round of ``topic``, and end that round for all waiting ranks: this rank will
        not wait."""
        base = self._enter(topic, mine)
        self._came(base, 1)
        self._settle(base)

    def announce(self, key: str, value: bytes) -> None:
        """Say something that any rank may :meth:`poll`; overwrites what was said under ``key``."""
        self._connection.do(lambda store: store.set(key, value))

    def poll(self, key: str) -> bytes | None:
        """What was announced under ``key``; None while nobody did."""
        return self._connection.poll(key)

    def wait_for(self, key: str, limit_s: float, ends: Callable[[float], bool] = lambda _: False) -> bytes | None:
        """What is announced under ``key`` within ``limit_s``; asks often at first, then ever more rarely.
        ``ends(waited_s)`` is asked once a second (less often in large worlds) whether to wait no longer.

        Nothing blocks in the store itself: torch prints two lines for each wait there that ends without an answer.
        """
        since = time.monotonic()
        pause_s, told_s = FIRST_PAUSE_S, self._progress_s
        while (value := self.poll(key)) is None:
            waited_s = time.monotonic() - since
            if waited_s >= limit_s:
                return None
            if waited_s >= told_s:
                told_s = waited_s + self._progress_s
                if ends(waited_s):
                    return None
            time.sleep(min(pause_s, max(limit_s - waited_s, 0.0)))
            pause_s = min(pause_s * 1.5, self._longest_pause_s)
        return value

    def forget(self, *keys: str) -> None:
        """Take back what was announced or counted."""
        self._connection.schedule(lambda store: [store.delete_key(key) for key in keys])

    def count(self, key: str) -> int:
        """How many ranks have counted themselves under ``key``, this one with them."""
        return int(self._connection.do(lambda store: store.add(key, 1)))

    def turn(self, topic: str) -> str:
        """The key of this rank's next turn at ``topic``, the same in every rank: for exchanges of one's own."""
        number = self._rounds[topic] = self._rounds[topic] + 1
        return f"{topic}/{number}"

    def position_of(self, rank: int) -> LastExchange | None:
        """Where ``rank`` last came to gather; None where it never did."""
        said = self.poll(f"at/{rank}")
        if said is None:
            return None
        topic, number, where, at = json.loads(said)
        return LastExchange(topic, number, where, max(0.0, time.time() - at))

    def stacks_of(self, ranks: Sequence[int], turn: str, *, timeout_s: float) -> dict[int, str]:
        """What ranks that did not come to ``turn`` are doing: a stack, or a sentence why there is none. Every rank that
        did come asks; ranks that could not be asked are not in it."""
        return self.peers.stacks_of(ranks, turn, timeout_s=timeout_s) if self.peers is not None else {}

    def is_own_process(self) -> bool:
        """False in a forked child: the threads and the place among the ranks are its parent's."""
        return self._pid == os.getpid()

    def ended_ranks(self) -> list[int]:
        """Ranks whose process has ended, as far as this rank can tell; looks for a second until there is one."""
        peers, deadline = self.peers, time.monotonic() + 1.0
        ended: list[int] = []
        with suppress(StoreLost):
            while peers is not None and time.monotonic() < deadline:
                if ended := [rank for rank in self._looked_at() if peers.is_dead(rank)]:
                    break
                time.sleep(LONGEST_PAUSE_S)
        return ended

    def open(self, server: tuple[str, int] | None) -> None:
        """From now on this rank tells what it does when another misses it. ``server``: where the store listens."""
        self.peers = PeerProcesses(self._connection, self.rank, self.world_size, server)

    def _enter(self, topic: str, mine: bytes) -> str:
        """Say where this rank is, and ``mine``; the key of the round."""
        base = self.turn(topic)
        at = json.dumps([topic, self._rounds[topic], called_from(), time.time()])
        keys, values = [f"at/{self.rank}", f"{base}/{self.rank}"], [at.encode(), mine]

        def say(store: Store) -> None:
            if store.has_extended_api():
                store.multi_set(keys, values)
                return
            for key, value in zip(keys, values, strict=True):
                store.set(key, value)

        self._connection.do(say)
        return base

    def _let_all_read(self, base: str, readers: int) -> None:
        """Where the store ends with rank 0: it may go on to its end only when the others have their answer."""
        key = f"{base}/read"
        if not self._kept_by_a_rank:
            return
        if self.rank != 0:
            self._connection.schedule(lambda store: store.add(key, 1))
            return
        deadline, pause_s = time.monotonic() + READERS_LIMIT_S, FIRST_PAUSE_S
        while self._connection.do(lambda store: store.add(key, 0)) < readers - 1 and time.monotonic() < deadline:
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, self._longest_pause_s)

    def _came(self, base: str, more: int = 0) -> int:
        return int(self._connection.do(lambda store: store.add(f"{base}/came", more)))

    def _wait_settled(self, base: str, timeout_s: float, progress: Progress | None) -> bytes:
        def waits(waited_s: float) -> bool:
            absent = self._absent(base)
            if progress is not None:
                progress(waited_s, absent)
            return self.peers is not None and any(self.peers.is_dead(rank) for rank in absent)

        key = f"{base}/settled"
        settled = self.wait_for(key, timeout_s, waits)
        if settled is None and self._is_judge(base):
            return self._settle(base)
        if settled is None:
            settled = self.wait_for(key, SETTLE_LIMIT_S + self.world_size / 200)
        return self._settle(base) if settled is None else settled

    def _absent(self, base: str) -> tuple[int, ...]:
        """Who has not come yet: of all ranks in a small world, else of this machine's."""
        ranks = self._looked_at()
        return self._connection.do(lambda store: tuple(r for r in ranks if not store.check([f"{base}/{r}"])))

    def _looked_at(self) -> range:
        return range(self.world_size) if self.world_size <= SMALL_WORLD else ranks_on_machine(self.rank)

    def _is_judge(self, base: str) -> bool:
        mine = str(self.rank)
        judge = self._connection.do(lambda store: store.compare_set(f"{base}/judge", "", mine))
        return bytes(judge) == mine.encode()

    def _settle(self, base: str) -> bytes:
        """Collect who came; the first to settle a round decides for all."""
        limit_s = SETTLE_LIMIT_S + self.world_size / 200
        return self._connection.do(lambda store: self._collect(store, base), limit_s=limit_s)

    def _collect(self, store: Store, base: str) -> bytes:
        all_came = store.add(f"{base}/came", 0) == self.world_size
        keys = {rank: f"{base}/{rank}" for rank in range(self.world_size)}
        if store.check([f"{base}/settled"]):  # too late: what others said may be deleted already
            return bytes(store.get(f"{base}/settled"))
        there = list(keys) if all_came else [rank for rank, key in keys.items() if store.check([key])]
        values: dict[int, bytes] = {}
        for start in range(0, len(there), KEYS_AT_ONCE):
            some = there[start : start + KEYS_AT_ONCE]
            values.update(zip(some, _read(store, [keys[rank] for rank in some]), strict=True))
        settled = packed.pack(values, self.world_size)
        return bytes(store.compare_set(f"{base}/settled", "", settled))

    def _clean_up(self, topic: str, base: str) -> None:
        """Delete rounds that every rank has left: those this thread was in before this one, which is complete."""
        main = threading.current_thread() is threading.main_thread()
        finished = self._finished.setdefault("" if main else topic, [])  # other threads: their order is known by topic
        own = [f"{before}/{self.rank}" for before in finished]
        shared = [f"{before}/{key}" for before in finished for key in ("came", "settled", "judge", "read")]
        finished[:] = [base]
        if keys := own + shared if self.rank == 0 else own:
            self.forget(*keys)


def _read(store: Store, keys: list[str]) -> Iterable[bytes]:
    if store.has_extended_api():
        return [bytes(value) for value in store.multi_get(keys)]
    return [bytes(store.get(key)) for key in keys]


_known: tuple[weakref.ref[object], RankExchange] | None = None
_lock = threading.Lock()


def current_exchange() -> RankExchange | None:
    """The meeting of this job's default group; None without one, in a group of one, in a data loader's worker, and in
    a child forked after the first meeting.

    Raises:
        StoreLost: the default group has no store (MPI): guards need one to exchange messages.
    """
    global _known  # noqa: PLW0603 - one a process, like the default group itself
    dist = sys.modules.get("torch.distributed")  # a program that did not load it has no group
    if dist is None or not dist.is_available() or not dist.is_initialized() or _in_loader_worker():
        return None
    group = dist.distributed_c10d._get_default_group()  # noqa: SLF001 - torch 2.4 to 2.13 have no other way
    if _known is not None and _known[0]() is group:
        return _known[1] if _known[1].is_own_process() else None
    with _lock:
        if _known is not None and _known[0]() is group:
            return _known[1]
        store = dist.distributed_c10d._get_default_store()  # noqa: SLF001
        if group.size() == 1 or type(unwrap_prefixes(store)).__name__ == "FakeStore":
            return None
        if store is None:
            raise StoreLost("the default group has no store (backend mpi): guards need one to exchange messages")
        here = RankExchange(store, group.rank(), group.size())
        here.open(store_address(store))
        _known = (weakref.ref(group), here)
        return here


def _in_loader_worker() -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None
