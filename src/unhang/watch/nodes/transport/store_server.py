"""The store in which watchers of several nodes meet: keeps values under keys for those who know the word.

Whoever connects proves first that it knows the word, and is told nothing before: no host, no key, no size. What it may
cost before that is bounded: connections, bytes, time, connections a second. Behind it all is bounded too, as a watcher
may be mistaken.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import threading
import time
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from typing import Any

import msgspec

from unhang.watch.nodes.transport.key_value_exchange import MAX_BYTES
from unhang.wire.documents.document import DECODE_ERRORS

NONCE = 32
HANDSHAKE_S = 3.0
MAX_UNAUTHENTICATED = 256
"""Connections at once of which nothing is known yet, in all and"""
MAX_FROM_ONE = 64
"""from one address."""
ACCEPTED_A_SECOND = 400
BURST_S = 1.0
"""So much of what was not used before may be used at once: nodes of a start come together."""
NO_NUMBER_S = 0.1
BACKLOG = 4096
MAX_CONNECTIONS = 16_384
MAX_KEYS, LONGEST_KEY, MAX_VALUE = 1_000_000, 256, MAX_BYTES + 64
MAX_KEPT = 4 << 30
"""Bytes of all values."""
MAX_SEATS = 65_536
MAX_FRAME = 4 << 20
ANSWER_PART = 2 << 20
"""An answer ends once it is so long; who asked asks on."""
PROOF_LABELS = (b"who asks\0", b"who answers\0")
_HEAD = 4


def proof(word: bytes, side: int, nonces: bytes) -> bytes:
    """HMAC-SHA256 by which ``side`` (0: client, 1: server) proves that it knows the token ``word``."""
    return hmac.digest(word, PROOF_LABELS[side] + nonces, "sha256")


class StoreRequest(msgspec.Struct, array_like=True, frozen=True):
    """What is wanted: ``s`` set, ``g`` get, ``n`` a seat for a name, ``r`` a seat with a number, ``c`` how many."""

    verb: str
    keys: list[str] = []
    value: bytes = b""
    number: int = 0


class LimitExceeded(Exception):
    """What was asked is beyond a limit."""


class StoredValues:
    """What was put. Every limit is checked before anything is kept."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._seats: dict[str, int] = {}
        self._size = self._highest = 0

    def answer(self, question: StoreRequest) -> Any:
        """Raises LimitExceeded."""
        if question.verb == "g":
            return self._found(question.keys)
        if question.verb == "s" and len(question.keys) == 1:
            return self._set(question.keys[0], question.value)
        if question.verb == "n" and len(question.keys) == 1:
            return self._seat(question.keys[0])
        if question.verb == "r":
            return self._raise_to(question.number)
        if question.verb == "c":
            return self._highest + 1
        raise LimitExceeded(question.verb)

    def _found(self, keys: list[str]) -> dict[str, bytes | None]:
        """Of the first keys as many as fit; None for those that are not there."""
        found: dict[str, bytes | None] = {}
        size = 0
        for key in keys:
            value = found[key] = self._kept.get(key)
            size += len(value or b"")
            if size > ANSWER_PART:
                break
        return found

    def _set(self, key: str, value: bytes) -> bool:
        size = self._size + len(value) - len(self._kept.get(key, b""))
        new = key not in self._kept
        if len(key) > LONGEST_KEY or len(value) > MAX_VALUE or size > MAX_KEPT:
            raise LimitExceeded("too large")
        if new and len(self._kept) >= MAX_KEYS:
            raise LimitExceeded("too many")
        self._kept[key], self._size = value, size
        return True

    def _seat(self, name: str) -> int:
        if name not in self._seats:
            self._raise_to(self._highest + 1)
            self._seats[name[:LONGEST_KEY]] = self._highest  # 0 is who keeps the store
        return self._seats[name]

    def _raise_to(self, number: int) -> int:
        if not 0 <= number < MAX_SEATS:
            raise LimitExceeded("too many")
        self._highest = max(self._highest, number)
        return number


class StoreServer:
    """Serves in a thread of its own until it is closed."""

    def __init__(self, listener: socket.socket, word: bytes) -> None:
        self._listener, self._word = listener, word
        self._values = StoredValues()
        self._strangers: dict[socket.socket, str] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._decoder = msgspec.msgpack.Decoder(StoreRequest)
        self._paid_s, self._closing = 0.0, False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """All connections end."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANDSHAKE_S)

    def _run(self) -> None:
        self._listener.setblocking(False)
        self._listen()
        self._loop.run_forever()
        self._closing = True
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            self._loop.run_until_complete(asyncio.wait(self._serving))
        self._loop.close()

    def _listen(self) -> None:
        if not self._closing:  # the loop still turns while the last connections end
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """One, and not faster than so many a second: whoever knocks without end costs no core."""
        self._loop.remove_reader(self._listener)
        now_s = time.monotonic()
        wait_s = NO_NUMBER_S
        with suppress(OSError):  # no file number is free, or the peer left
            line, address = self._listener.accept()
            self._start_serving(line, str(address[0]))
            self._paid_s = max(self._paid_s, now_s - BURST_S) + 1 / ACCEPTED_A_SECOND
            wait_s = max(0.0, self._paid_s - now_s)
        self._loop.call_later(wait_s, self._listen)

    def _start_serving(self, line: socket.socket, address: str) -> None:
        from_one = list(self._strangers.values()).count(address)
        full = len(self._strangers) >= MAX_UNAUTHENTICATED or from_one >= MAX_FROM_ONE
        if full or len(self._serving) >= MAX_CONNECTIONS:
            line.close()
            return
        self._strangers[line] = address
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        task = self._loop.create_task(self._serve(line))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: self._part(line))

    def _part(self, line: socket.socket) -> None:
        self._strangers.pop(line, None)
        line.close()  # nobody has where it was accepted in the last moment

    async def _serve(self, line: socket.socket) -> None:
        with suppress(OSError, EOFError, asyncio.TimeoutError, LimitExceeded, *DECODE_ERRORS):
            reading, writing = await asyncio.open_connection(sock=line)  # sets TCP_NODELAY
            try:
                await asyncio.wait_for(self._meet(reading, writing), HANDSHAKE_S)
                del self._strangers[line]
                while (size := int.from_bytes(await reading.readexactly(_HEAD), "big")) <= MAX_FRAME:
                    answer = self._values.answer(self._decoder.decode(await reading.readexactly(size)))
                    body = msgspec.msgpack.encode(answer)
                    writing.write(len(body).to_bytes(_HEAD, "big") + body)
                    await writing.drain()
            finally:
                writing.transport.abort()  # nothing is kept for one that does not read

    async def _meet(self, reading: StreamReader, writing: StreamWriter) -> None:
        """Raises EOFError where it does not know the word."""
        ours = secrets.token_bytes(NONCE)
        writing.write(ours)
        told = await reading.readexactly(2 * NONCE)
        nonces = ours + told[:NONCE]
        if not hmac.compare_digest(told[NONCE:], proof(self._word, 0, nonces)):
            raise EOFError
        writing.write(proof(self._word, 1, nonces))
