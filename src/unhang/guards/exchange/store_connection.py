"""Our own connection to the job's store: no operation waits longer than its limit.

A client of torch's TCPStore holds a lock while it waits, and waits for ever on a server that was stopped. So we take
a connection of our own (NCCL's and Gloo's threads need the job's), and a thread of ours stands in for whoever asks.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar, cast

from unhang.errors import StoreLost

LIMIT_S = 15.0
"""One operation takes about 20 µs; a server that says nothing for so long is stopped or gone."""
CLOSE_LIMIT_S = 1.0
GROUP_PREFIX = "unhang "
"""So the descriptions begin of the process groups that guards make for themselves."""
ENDING_REASON = "this process is about to end"
T = TypeVar("T")


class Store(Protocol):
    """What torch's stores do. torch's own stubs know neither bytes nor the extended operations."""

    def set(self, key: str, value: bytes | str, /) -> None: ...  # noqa: D102
    def get(self, key: str, /) -> bytes: ...  # noqa: D102
    def add(self, key: str, more: int, /) -> int: ...  # noqa: D102
    def check(self, keys: list[str], /) -> bool: ...  # noqa: D102
    def compare_set(self, key: str, expected: str, wanted: str, /) -> bytes: ...  # noqa: D102
    def delete_key(self, key: str, /) -> bool: ...  # noqa: D102
    def has_extended_api(self) -> bool: ...  # noqa: D102
    def multi_get(self, keys: list[str], /) -> list[bytes]: ...  # noqa: D102
    def multi_set(self, keys: list[str], values: list[bytes], /) -> None: ...  # noqa: D102


class StoreConnection:
    """Operations on a store, one after the other. Usable from any thread; ``store`` is used by no one else of ours."""

    def __init__(self, make: Callable[[], Store], *, limit_s: float = LIMIT_S) -> None:
        self._make: Callable[[], Store] | None = make
        self._limit_s = limit_s
        self._work: queue.SimpleQueue[_Operation[Any] | None] = queue.SimpleQueue()
        self._lost: str | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="unhang-store", daemon=True)
        self._thread.start()
        # A thread that comes back from torch while the interpreter ends takes the process down with it (SIGABRT).
        atexit.register(self.close)

    def close(self) -> None:
        """Nothing new after this; what was asked before gets a second."""
        self._closed = True
        self._work.put(None)
        self._thread.join(CLOSE_LIMIT_S)
        self._lost = self._lost or ENDING_REASON
        self._thread.join(CLOSE_LIMIT_S)

    def do(self, operation: Callable[[Store], T], *, limit_s: float | None = None) -> T:
        """Run ``operation(store)`` within its limit and return its result.

        Raises:
            StoreLost: the store is gone, or did not answer within the limit.
        """
        if self._lost is not None or self._closed:
            raise StoreLost(self._lost or ENDING_REASON)
        asked = _Operation(operation)
        self._work.put(asked)
        limit_s = self._limit_s if limit_s is None else limit_s
        if not asked.done.acquire(timeout=limit_s):
            self._lost = f"the job's store did not answer within {limit_s:g} s: the process that keeps it is stopped"
            raise StoreLost(self._lost)
        if asked.error is not None:
            raise asked.error
        assert asked.answer is not None
        return asked.answer[0]

    def poll(self, key: str) -> bytes | None:
        """What stands under ``key``; None where nothing does."""
        return self.do(lambda store: store.get(key) if store.check([key]) else None)

    def schedule(self, operation: Callable[[Store], object]) -> None:
        """Do it after what is under way; nobody waits, a failure is found by the next who asks."""
        if self._lost is None and not self._closed:
            self._work.put(_Operation(operation))

    def _serve(self) -> None:
        store: Store | None = None
        while True:
            asked = self._work.get()
            if asked is None:
                return
            if self._lost is not None:
                asked.error = StoreLost(self._lost)
                asked.done.release()
                continue
            try:
                store = self._connected() if store is None else store
                asked.answer = (asked.operation(store),)
            except RuntimeError as error:  # every error of a store derives from it
                self._lost = f"the job's store is gone ({_first_line(error)}): the process that kept it has ended"
                asked.error = StoreLost(self._lost)
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
                asked.error = error
            asked.done.release()
            del asked

    def _connected(self) -> Store:
        assert self._make is not None
        store = self._make()
        self._make = None  # it holds the job's store, and in rank 0 with it the server: that ends with the job's group
        return store


class _Operation(Generic[T]):
    """One thing asked of the store."""

    def __init__(self, operation: Callable[[Store], T]) -> None:
        self.operation = operation
        self.answer: tuple[T] | None = None
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()


def connect_store(store: Store) -> Store:
    """A store like ``store``, on a connection of our own, in a corner that no other job or attempt shares.

    Other stores than TCPStore have no connection: their operations are short, and they are used as they are.
    """
    from torch._C._distributed_c10d import PrefixStore, TCPStore  # absent where torch is built without distributed

    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    # Prefixes cannot be read back; whoever comes first gives this one's job a name on the shared server.
    name = store.compare_set(f"unhang/name/{attempt}", "", uuid.uuid4().hex).decode()
    server = unwrap_prefixes(store)
    if isinstance(server, TCPStore):
        limit = timedelta(seconds=LIMIT_S)
        own = TCPStore(server.host, server.port, None, False, limit, wait_for_workers=False)
        return cast("Store", PrefixStore(f"unhang/{name}", own))
    return cast("Store", PrefixStore(f"unhang/{name}", cast("Any", store)))


def unwrap_prefixes(store: Store) -> Store:
    """``store`` without its prefixes."""
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    return store


def is_served_by_rank(store: Store) -> bool:
    """The server of ``store`` ends with a rank (the first), not with the launcher."""
    return store_address(store) is not None and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"


def store_address(store: Store) -> tuple[str, int] | None:
    """Where the server behind ``store`` listens; None where it has none."""
    server = unwrap_prefixes(store)
    host, port = getattr(server, "host", None), getattr(server, "port", None)
    return (host, port) if isinstance(host, str) and isinstance(port, int) else None


def _first_line(error: BaseException) -> str:
    with suppress(IndexError):
        return str(error).splitlines()[0][:200]
    return type(error).__name__
