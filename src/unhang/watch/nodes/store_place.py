"""Watchers meet in a store of torch that is theirs alone: never the job's, on a port of our own.

Node 0 keeps it, at the address the job itself meets at; it listens on that address and on no other. When it goes for
good, the next node that the others know of keeps a new one.
"""

from __future__ import annotations

import socket
import zlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch hides it from type checkers

from unhang.watch.nodes.exchange import MOST_BYTES, ExchangeError

FIRST_PORT, PORTS = 20_000, 10_000
"""Below the ports that kernels give to whoever asks for any."""
BACKLOG = 4096


def port_of(key: str) -> int:
    """The port of the watchers of a start: every node comes to the same."""
    return FIRST_PORT + zlib.crc32(key.encode()) % PORTS


def is_loopback(address: str) -> bool:
    """Whether nobody outside this machine can come to ``address``."""
    with suppress(OSError):
        return all(str(found[4][0]).startswith(("127.", "::1")) for found in socket.getaddrinfo(address, None))
    return False


def is_here(address: str) -> bool:
    """Whether ``address`` is one of this machine's: something can listen there."""
    with suppress(OSError):
        _listen(address, 0).close()
        return True
    return False


class StorePlace:
    """One connection, and the store itself where this node keeps it."""

    def __init__(self, address: str, port: int, *, keep: bool, count: int = 0, limit_s: float = 3.0) -> None:
        """Raises ExchangeError where nobody answers at ``address`` within ``limit_s``, or the port is taken."""
        self.address, self.port, self._count = address, port, count
        self._there: set[str] = set()
        limit = timedelta(seconds=limit_s)
        try:
            listener = _listen(address, port) if keep else None
            if not keep:
                socket.create_connection((address, port), timeout=limit_s).close()  # torch would try again and again
            number = listener.detach() if listener is not None else None
            self._store = TCPStore(
                address,
                port,
                None,
                keep,
                timeout=limit,
                wait_for_workers=False,
                multi_tenant=False,
                master_listen_fd=number,
            )
        except (OSError, RuntimeError) as error:  # torch's DistStoreError and its kin are RuntimeErrors
            raise ExchangeError(f"{address}:{port}: {_reason(error)}") from error

    def take_seat(self, number: int | None, name: str) -> int:
        """See :class:`~unhang.watch.nodes.exchange.Exchange`."""
        try:
            if number is None:
                key = f"seat/{name}"
                if self._store.check([key]):
                    return int(self._store.get(key))
                number = self._store.add("seats", 1)  # 0 is who keeps the store
                self._store.set(key, str(number))
            elif not self._count:  # who leads hears the numbers below the highest one
                self._store.add("seats", max(0, number - int(self._store.add("seats", 0))))
            return number
        except (OSError, RuntimeError, ValueError) as error:
            raise ExchangeError(f"{self.address}:{self.port}: {_reason(error)}") from error

    def put(self, key: str, value: bytes) -> None:
        """See there."""
        if len(value) > MOST_BYTES + 64:
            raise ExchangeError(f"{key}: {len(value)} bytes are too many")
        try:
            self._store.set(key, value)  # type: ignore[arg-type]  # bytes are taken as they are
        except (OSError, RuntimeError) as error:
            raise ExchangeError(f"{self.address}:{self.port}: {_reason(error)}") from error

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """See there. The store would wait for keys that are not there: they are asked for one by one until they are."""
        try:
            for key in keys:
                if key not in self._there and self._store.check([key]):
                    self._there.add(key)
            known = [key for key in keys if key in self._there]
            values: Sequence[bytes] = self._store.multi_get(known) if known else ()
            return dict(zip(known, map(bytes, values), strict=True))
        except (OSError, RuntimeError) as error:
            raise ExchangeError(f"{self.address}:{self.port}: {_reason(error)}") from error

    def seats(self) -> int:
        """See there."""
        if self._count:
            return self._count
        try:
            return int(self._store.add("seats", 0)) + 1
        except (OSError, RuntimeError) as error:
            raise ExchangeError(f"{self.address}:{self.port}: {_reason(error)}") from error

    def moved(self) -> bool:
        """See there: a store that is gone is noticed by itself."""
        return False

    def leave(self) -> None:
        """See there: it ends with who keeps it."""

    def close(self) -> None:
        """See there; a store that is kept here ends."""
        self.__dict__.pop("_store", None)


def _listen(address: str, port: int) -> socket.socket:
    family, kind, proto, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        if port:
            listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _reason(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0][:200] or type(error).__name__
