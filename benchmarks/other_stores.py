"""The store in which watchers meet, carried by what exists: each as little code as keeps most of its promises.

For ``messaging``, which measures them beside our own. All speak with the same words (``StoreRequest``, msgspec) and
keep the same values (``StoredValues``); what differs is who carries them. None unpickles anything.
"""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from multiprocessing import AuthenticationError, connection
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from benchmarks.nats_store import NatsStore
from unhang.watch.nodes.transport.key_value_exchange import ExchangeError
from unhang.watch.nodes.transport.store_exchange import StoreExchange
from unhang.watch.nodes.transport.store_server import (
    BACKLOG,
    HANDSHAKE_S,
    MAX_FRAME,
    LimitExceeded,
    StoredValues,
    StoreRequest,
)

if TYPE_CHECKING:
    import zmq

LIMIT_S = 3.0
"""Of a call, as in ours."""
MAX_UNAUTHENTICATED = 256
_SECONDS = struct.Struct("ll")


class Store(Protocol):
    """What the benchmark asks of each."""

    def put(self, key: str, value: bytes) -> None:
        """Set a value. Raises ExchangeError."""

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Values by key; keys without one are left out. Raises ExchangeError."""

    def close(self) -> None:
        """Let go; a store kept here ends."""


class Asking:
    """``put`` and ``get`` for those who carry requests and answers as bytes."""

    def put(self, key: str, value: bytes) -> None:
        """See ``Store``."""
        self._ask(StoreRequest("s", [key], value))

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """See ``Store``."""
        found: dict[str, bytes | None] = {}
        left = list(keys)
        while left:
            came = self._ask(StoreRequest("g", left))
            found.update(came)
            left = left[len(came) :]
        return {key: value for key, value in found.items() if value is not None}

    def _ask(self, question: StoreRequest) -> Any:
        return msgspec.msgpack.decode(self.carried(msgspec.msgpack.encode(question)))

    def carried(self, body: bytes) -> bytes:
        """The answer to ``body``."""
        raise NotImplementedError


def _answer(values: StoredValues, body: bytes) -> bytes:
    return msgspec.msgpack.encode(values.answer(msgspec.msgpack.decode(body, type=StoreRequest)))


def _word(token: str) -> bytes:
    return hashlib.sha256(b"store\0" + token.encode()).digest()


class TorchStore:
    """``torch.distributed.TCPStore``: what watchers used first. Whoever connects is believed."""

    def __init__(self, address: str, port: int, *, keep: bool, token: str = "") -> None:
        """``token`` is for nothing."""
        del token
        from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch hides it from type checkers

        self._there: set[str] = set()
        limit = timedelta(seconds=LIMIT_S)
        number = _listener(address, port).detach() if keep else None
        try:
            self._store: Any = TCPStore(
                address,
                port,
                None,
                keep,
                timeout=limit,
                wait_for_workers=False,
                multi_tenant=False,
                master_listen_fd=number,
            )
        except RuntimeError as error:
            raise ExchangeError(str(error)) from error

    def put(self, key: str, value: bytes) -> None:
        """See ``Store``."""
        self._told(lambda: self._store.set(key, value))

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """See ``Store``. It would wait for what is not there: each key is asked for until it is."""
        self._there.update(key for key in keys if key not in self._there and self._is_there(key))
        known = [key for key in keys if key in self._there]
        values = self._told(lambda: self._store.multi_get(known)) if known else ()
        return dict(zip(known, map(bytes, values), strict=True))

    def _is_there(self, key: str) -> bool:
        return bool(self._told(lambda: self._store.check([key])))

    def _told(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except RuntimeError as error:
            raise ExchangeError(str(error)) from error

    def close(self) -> None:
        """See ``Store``."""
        self.__dict__.pop("_store", None)


class ConnectionStore(Asking):
    """``multiprocessing.connection``: challenge and frames; who keeps it has a thread for each connection."""

    def __init__(self, address: str, port: int, *, keep: bool, token: str = "") -> None:
        word = _word(token)
        self._listener = _listener(address, port) if keep else None
        if self._listener is not None:
            threading.stack_size(256 << 10)
            threading.Thread(target=ConnectionKeeper(self._listener, word).run, daemon=True).start()
        try:
            line = socket.create_connection((address, port), timeout=LIMIT_S)
            self.line = _limited(line, LIMIT_S)
            connection.answer_challenge(self.line, word)  # not among its public names
            connection.deliver_challenge(self.line, word)
        except (OSError, EOFError, AuthenticationError) as error:
            raise ExchangeError(str(error)) from error

    def carried(self, body: bytes) -> bytes:
        """See ``Asking``."""
        try:
            self.line.send_bytes(body)
            return self.line.recv_bytes(MAX_FRAME)
        except (OSError, EOFError) as error:
            self.line.close()
            raise ExchangeError(str(error)) from error

    def close(self) -> None:
        """See ``Store``."""
        self.line.close()
        if self._listener is not None:
            self._listener.close()


class ConnectionKeeper:
    """Serves one listener."""

    def __init__(self, listener: socket.socket, word: bytes) -> None:
        self._listener, self._word, self._values = listener, word, StoredValues()
        self._one, self._strangers = threading.Lock(), threading.Semaphore(MAX_UNAUTHENTICATED)

    def run(self) -> None:
        """Until the listener is closed. ``Listener.accept`` would let one silent stranger hold up everybody."""
        with suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                if self._strangers.acquire(blocking=False):
                    threading.Thread(target=self._serve, args=(line,), daemon=True).start()
                else:
                    line.close()

    def _serve(self, line: socket.socket) -> None:
        peer = _limited(line, HANDSHAKE_S)
        with suppress(OSError, EOFError, AuthenticationError, AssertionError, msgspec.DecodeError, LimitExceeded), peer:
            try:
                connection.deliver_challenge(peer, self._word)
                connection.answer_challenge(peer, self._word)
            finally:
                self._strangers.release()
            while True:
                if peer.poll(60.0):
                    body = peer.recv_bytes(MAX_FRAME)
                    with self._one:
                        answer = _answer(self._values, body)
                    peer.send_bytes(answer)


class ZmqStore(Asking):
    """ZeroMQ with CURVE: frames, reconnecting and encryption; all who know the token have the same pair of keys."""

    def __init__(self, address: str, port: int, *, keep: bool, token: str = "") -> None:
        import zmq

        self._keys = public, secret = _curve(token)
        self._keeper = _zmq_keeper(f"tcp://{address}:{port}", secret) if keep else None
        self.line = _context().socket(zmq.REQ)
        self.line.curve_publickey, self.line.curve_secretkey, self.line.curve_serverkey = public, secret, public
        self.line.rcvtimeo = self.line.sndtimeo = int(1000 * LIMIT_S)
        self.line.linger, self.line.maxmsgsize = 0, MAX_FRAME
        self.line.connect(f"tcp://{address}:{port}")

    def carried(self, body: bytes) -> bytes:
        """See ``Asking``."""
        import zmq

        try:
            self.line.send(body)
            return bytes(self.line.recv())
        except zmq.ZMQError as error:
            self.line.close()  # it would wait for this answer for ever
            raise ExchangeError(str(error)) from error

    def asking_on(self, place: str, body: bytes) -> Callable[[], None]:
        """Sends ``body`` whenever it is called, and reads nothing."""
        import zmq

        line = _context().socket(zmq.DEALER)
        line.curve_publickey, line.curve_secretkey = self._keys
        line.curve_serverkey, line.rcvhwm = self._keys[0], 1
        line.connect(place)

        def ask() -> None:
            try:
                line.send_multipart([b"", body], zmq.NOBLOCK)
            except zmq.Again as error:
                raise BlockingIOError from error

        return ask

    def close(self) -> None:
        """See ``Store``."""
        self.line.close()
        if self._keeper is not None:
            self._keeper.close()


def _zmq_keeper(place: str, secret: bytes) -> zmq.Socket[bytes]:
    import zmq

    keeper = _context().socket(zmq.ROUTER)
    keeper.curve_server, keeper.curve_secretkey = True, secret
    keeper.linger, keeper.maxmsgsize, keeper.backlog = 0, MAX_FRAME, BACKLOG
    keeper.set(zmq.HANDSHAKE_IVL, int(1000 * HANDSHAKE_S))
    keeper.bind(place)

    def serve() -> None:
        values = StoredValues()
        with suppress(zmq.ZMQError):  # it was closed
            while True:
                who, *_, body = keeper.recv_multipart()
                with suppress(msgspec.DecodeError, LimitExceeded, zmq.Again):
                    keeper.send_multipart([who, b"", _answer(values, body)], zmq.NOBLOCK)

    threading.Thread(target=serve, daemon=True).start()
    return keeper


@cache
def _context() -> zmq.Context[zmq.Socket[bytes]]:
    import zmq

    made = zmq.Context()
    made.set(zmq.MAX_SOCKETS, 8192)
    return made


@cache
def _curve(token: str) -> tuple[bytes, bytes]:
    """(public, secret)."""
    import zmq
    from zmq.utils import z85

    secret = z85.encode(_word(token))
    return zmq.curve_public(secret), secret


def _limited(line: socket.socket, limit_s: float) -> connection.Connection:
    """Each read and write of it ends after so long; many small ones may take longer together."""
    line.setblocking(True)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        line.setsockopt(socket.SOL_SOCKET, option, _SECONDS.pack(int(limit_s), 0))
    return connection.Connection(line.detach())


def _listener(address: str, port: int) -> socket.socket:
    return socket.create_server((address, port), backlog=BACKLOG)


STORES: dict[str, Callable[..., Store]] = {
    "ours": StoreExchange,
    "tcpstore": TorchStore,
    "connection": ConnectionStore,
    "zmq": ZmqStore,
    "nats": NatsStore,
}
