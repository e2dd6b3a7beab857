"""Watchers meet in a store that is theirs alone: never the job's, on a port of our own.

Node 0 keeps it, at the address the job itself meets at; it listens on that address and on no other. When it goes for
good, the next node that the others know of keeps a new one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from unhang.report.printable import one_line
from unhang.watch.nodes.transport.key_value_exchange import ExchangeError
from unhang.watch.nodes.transport.store_server import (
    BACKLOG,
    MAX_FRAME,
    MAX_VALUE,
    NONCE,
    StoreRequest,
    StoreServer,
    proof,
)

NO_KNOWN_WATCHER = "no watcher with the same token answers there"
MAX_ASKED = 4096
"""Keys at once."""
FIRST_PORT, PORTS = 20_000, 10_000
"""Below the ports that kernels give to whoever asks for any."""


def watcher_port(key: str) -> int:
    """The port of the watchers of a start: every node comes to the same."""
    return FIRST_PORT + zlib.crc32(key.encode()) % PORTS


def is_loopback(address: str) -> bool:
    """Whether nobody outside this machine can come to ``address``."""
    with suppress(OSError):
        return all(str(found[4][0]).startswith(("127.", "::1")) for found in socket.getaddrinfo(address, None))
    return False


def is_local_address(address: str) -> bool:
    """Whether ``address`` is one of this machine's: something can listen there."""
    with suppress(OSError):
        _listen(address, 0).close()
        return True
    return False


class StoreExchange:
    """One connection, and the store itself where this node keeps it."""

    def __init__(
        self,
        address: str,
        port: int,
        *,
        keep: bool,
        token: str = "",
        key: str = "",
        count: int = 0,
        limit_s: float = 3.0,
    ) -> None:
        """Raises ExchangeError where nobody who knows ``token`` answers there in time, or the port is taken."""
        self.address, self.port, self._count = address, port, count
        word = hashlib.sha256(f"unhang store\0{key}\0{token}".encode()).digest()
        self._keeper: StoreServer | None = None
        self._line: socket.socket | None = None
        try:
            self._keeper = StoreServer(_listen(address, port), word) if keep else None
            self._line = socket.create_connection((address, port), timeout=limit_s)
            self._line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._meet(word)
        except OSError as error:
            self.close()
            raise ExchangeError(f"{address}:{port}: {_reason(error)}") from error

    def take_seat(self, number: int | None, name: str) -> int:
        """As :class:`KeyValueExchange`."""
        if number is None:
            return int(self._ask(StoreRequest("n", [name])))
        if not self._count:  # who leads hears the numbers below the highest one
            self._ask(StoreRequest("r", number=number))
        return number

    def put(self, key: str, value: bytes) -> None:
        """As :class:`KeyValueExchange`."""
        if len(value) > MAX_VALUE:
            raise ExchangeError(f"{key}: {len(value)} bytes are too many")
        self._ask(StoreRequest("s", [key], value))

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """As :class:`KeyValueExchange`. An answer holds so much at most: the rest is asked for anew."""
        found: dict[str, bytes | None] = {}
        left = list(keys)
        while left:
            came = self._ask(StoreRequest("g", left[:MAX_ASKED]))
            if not isinstance(came, dict) or not came:
                raise ExchangeError(f"{self.address}:{self.port}: {NO_KNOWN_WATCHER}")
            found.update(came)
            left = left[len(came) :]
        return {key: value for key, value in found.items() if value is not None}

    def seats(self) -> int:
        """As :class:`KeyValueExchange`."""
        return self._count or int(self._ask(StoreRequest("c")))

    def moved(self) -> bool:
        """False: a store that is gone is noticed by itself."""
        return False

    def leave(self) -> None:
        """Nothing to do: the store ends with the process that keeps it."""

    def close(self) -> None:
        """Close the connection; a store kept here ends."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def __del__(self) -> None:
        self.close()

    def _meet(self, word: bytes) -> None:
        """Prove to each other that both know the word; what is kept there answers nobody else, nor is it believed."""
        assert self._line is not None
        nonces = self._read(NONCE) + secrets.token_bytes(NONCE)
        self._line.sendall(nonces[NONCE:] + proof(word, 0, nonces))
        try:
            told = self._read(len(word))
        except OSError as error:
            raise OSError(None, NO_KNOWN_WATCHER) from error
        if not hmac.compare_digest(told, proof(word, 1, nonces)):
            raise OSError(None, NO_KNOWN_WATCHER)

    def _ask(self, question: StoreRequest) -> Any:
        try:
            if self._line is None:
                raise OSError(None, "the connection was lost")
            body = msgspec.msgpack.encode(question)
            self._line.sendall(len(body).to_bytes(4, "big") + body)
            return msgspec.msgpack.decode(self._read(int.from_bytes(self._read(4), "big")))
        except (OSError, msgspec.DecodeError) as error:
            if self._line is not None:
                self._line.close()  # half an answer may be on its way
                self._line = None
            raise ExchangeError(f"{self.address}:{self.port}: {_reason(error)}") from error

    def _read(self, size: int) -> bytes:
        assert self._line is not None
        if size > MAX_FRAME:
            raise OSError(None, NO_KNOWN_WATCHER)
        parts = bytearray()
        while len(parts) < size:
            part = self._line.recv(min(size - len(parts), 1 << 18))
            if not part:
                raise OSError(None, "the connection was lost")
            parts += part
        return bytes(parts)


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
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return one_line(told, 200) or type(error).__name__
