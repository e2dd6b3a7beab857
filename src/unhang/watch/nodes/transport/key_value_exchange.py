"""What two transports share: values under keys, that every watcher of a start can set and read.

Keys: ``h/N`` who node N is, ``d/N`` its last digest, ``w/N`` what it says as (possible) leader, ``v/N`` the last
verdict it gave, ``e/NUMBER/N/PART`` its evidence for sample NUMBER. One writer a key, so nothing is ever merged.

Values are such that only watchers who know the word can have written them: sealed with HMAC, counted so that none comes
twice.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from unhang.errors import UnhangError

MAX_BYTES = 1 << 20
"""Of one value; what is larger is put in parts."""


class ExchangeError(UnhangError):
    """The place cannot be reached, or did not take or give a value within the limit."""


class KeyValueExchange(Protocol):
    """A place where watchers meet. Calls end within the limit the place was opened with; where a network or a file
    system lets one hang all the same, the watcher ends the process that made it.

    Raises (every call):
        ExchangeError: see there.
    """

    def take_seat(self, number: int | None, name: str) -> int:
        """This node's number: ``number`` where it is known, else the next free one. ``name`` gets the same again."""
        ...

    def put(self, key: str, value: bytes) -> None:
        """Set ``value`` (at most :data:`MAX_BYTES`)."""
        ...

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Values by key; keys without one are left out."""
        ...

    def seats(self) -> int:
        """How many seats were taken or known so far: nodes have numbers below it."""
        ...

    def moved(self) -> bool:
        """Whether others who come now meet elsewhere: this place was taken away and made anew."""
        ...

    def leave(self) -> None:
        """The command of this node is over: what nobody needs any more is taken away, as far as it is ours."""
        ...

    def close(self) -> None:
        """Let go of the place for now; what was set stays."""
        ...


TOKEN_VARIABLE = "UNHANG_TOKEN"  # noqa: S105 - the name of the variable
TOKEN_FILE = "token"  # noqa: S105 - the name of the file
MIN_TOKEN_LENGTH = 16
_HEAD = struct.Struct(">QQ")
_KEPT = 16 << 10
_SIGNATURE_BYTES = 16
"""Bytes of a seal: half of SHA-256."""


def token_from_environment(environment: Mapping[str, str]) -> str:
    """``UNHANG_TOKEN``; empty where there is none, or one that could be guessed."""
    token = environment.get(TOKEN_VARIABLE, "")
    return token if len(token) >= MIN_TOKEN_LENGTH else ""


def shared_token(folder: Path) -> str:
    """The token of a shared folder; whoever comes first makes it. Raises OSError where that cannot be."""
    path = folder / TOKEN_FILE
    with suppress(FileExistsError):
        made = folder / f".{TOKEN_FILE}.{os.uname().nodename}.{os.getpid()}"
        number = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(number, "w") as file:
            file.write(secrets.token_hex(16))
        try:
            os.link(made, path)  # never half written, and only the first one succeeds: also over NFS
        finally:
            made.unlink(missing_ok=True)
    told = path.lstat()
    if told.st_uid != os.getuid():
        raise PermissionError(f"{path} is not ours")
    return path.read_text().strip()


class SignedValues:
    """An exchange whose values are sealed. What has no seal of ours, or an older number than seen, is not there."""

    def __init__(self, exchange: KeyValueExchange, token: str, key: str, *, started: int | None = None) -> None:
        self._exchange = exchange
        self._word = hashlib.sha256(f"unhang nodes\0{key}\0{token}".encode()).digest()
        self._started = time.time_ns() if started is None else started
        self._count = 0
        self._seen: dict[str, tuple[int, int]] = {}
        self._last: dict[str, bytes] = {}
        """What was opened last: most values are the same at the next read."""
        self.refused = 0
        """Values that somebody else must have written."""

    def put(self, key: str, value: bytes) -> int:
        """Set ``value``; returns the bytes that went out for it."""
        self._count += 1
        body = _HEAD.pack(self._started, self._count) + value
        sealed = self._sign(key, body) + body
        self._exchange.put(key, sealed)
        return len(sealed) + len(key)

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values that are there and ours."""
        found = {}
        for key, sealed in self._exchange.get(keys).items():
            value = self._open(key, sealed)
            if value is not None:
                found[key] = value
        return found

    def _open(self, key: str, sealed: bytes) -> bytes | None:
        if not sealed:
            return None
        body = sealed[_SIGNATURE_BYTES:]
        if self._last.get(key) == sealed:
            return body[_HEAD.size :]
        if len(body) < _HEAD.size or not hmac.compare_digest(sealed[:_SIGNATURE_BYTES], self._sign(key, body)):
            self.refused += 1
            return None
        number: tuple[int, int] = _HEAD.unpack_from(body)
        if number < self._seen.get(key, (0, 0)):
            self.refused += 1
            return None
        self._seen[key] = number
        if len(sealed) <= _KEPT:
            self._last[key] = sealed
        return body[_HEAD.size :]

    def _sign(self, key: str, body: bytes) -> bytes:
        return hmac.digest(self._word, key.encode() + b"\0" + body, "sha256")[:_SIGNATURE_BYTES]
