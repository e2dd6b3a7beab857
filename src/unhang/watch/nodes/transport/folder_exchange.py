"""Watchers meet in a folder that all nodes see: a small file a key, rewritten in place and opened anew for every read.

Network file systems show a folder's listing late, and a missing file as missing for a while: nothing is listed here,
and a file is opened so that it comes into being where it is not there yet. A torn value has no seal that fits.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files
from unhang.watch.nodes.transport.key_value_exchange import MAX_BYTES, TOKEN_FILE, ExchangeError

READERS = 16
LISTED_S = 5.0
"""So often a listing is looked at, for numbers behind one that is missing."""
GONE_S = 10.0
"""A node whose digest is so much older than a value of now has ended without a word."""
MAX_NODES = 1 << 16
_FEW = 8
_OURS = re.compile(r"(?:[hdwvp]-\d+|e-\d+-\d+|seat-\d+|left-\d+|token|\.token\.[\w.-]+)")


class FolderExchange:
    """``folder`` is made private; it belongs to the user, on every node."""

    def __init__(self, folder: Path, count: int = 0) -> None:
        """Raises ExchangeError where the folder cannot be used. ``count``: nodes of the start, 0 where not known."""
        self._folder, self._count, self._known, self._seat = folder, count, 0, -1
        self._listed_at = float("-inf")
        self._known_token = b""
        try:
            private_files.make_folder(folder)
            told = folder.lstat()
            if told.st_uid != os.getuid():
                raise PermissionError(f"{folder} is not ours")
            if told.st_mode & 0o077:
                folder.chmod(0o700)
        except OSError as error:
            raise ExchangeError(f"{folder}: {error.strerror or error}") from error
        self._readers: ThreadPoolExecutor | None = None

    def take_seat(self, number: int | None, name: str) -> int:
        """As :class:`KeyValueExchange`."""
        if number is not None:
            self._claim_seat(number, name)
            return number
        for free in range(self._count or MAX_NODES):
            if self._try_seat(self._folder / f"seat-{free}", name):
                self._claim_seat(free, name)
                return free
        raise ExchangeError(f"{self._folder}: more nodes than the start has")

    def put(self, key: str, value: bytes) -> None:
        """As :class:`KeyValueExchange`."""
        if len(value) > MAX_BYTES + 64:
            raise ExchangeError(f"{key}: {len(value)} bytes are too many")
        try:
            number = os.open(self._path(key), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                # One write, its length first: whoever reads between finds an old end behind a new beginning.
                os.pwrite(number, len(value).to_bytes(4, "big") + value, 0)
            finally:
                os.close(number)
        except OSError as error:
            raise ExchangeError(f"{self._folder}: {error.strerror or error}") from error

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """As :class:`KeyValueExchange`."""
        if len(keys) <= _FEW:
            values = [self._read(key) for key in keys]
        else:
            if self._readers is None:
                self._readers = ThreadPoolExecutor(READERS)
            values = list(self._readers.map(self._read, keys, chunksize=8))
        return {key: value for key, value in zip(keys, values, strict=True) if value}

    def seats(self) -> int:
        """As :class:`KeyValueExchange`. Looks for one more than it knows of, and at times for any."""
        while not self._count and self._known < MAX_NODES and (self._folder / f"seat-{self._known}").exists():
            self._known += 1
        if not self._count and time.monotonic() - self._listed_at > LISTED_S:
            self._listed_at = time.monotonic()
            with suppress(OSError):
                self._known = max(self._known, 1 + max(self._numbers("seat"), default=-1))
        return max(self._count, self._known)

    def moved(self) -> bool:
        """Whether the folder's token is another one."""
        return self._token() != self._known_token

    def leave(self) -> None:
        """The last node to leave removes the folder, with all of ours in it and nothing else."""
        with suppress(OSError):
            mine = self._folder / f"left-{self._seat}"
            mine.touch(0o600)
            if not self.moved() and self._all_left(mine.stat().st_mtime):
                for path in self._ours():
                    path.unlink(missing_ok=True)
                self._folder.rmdir()  # where anything else is in it, it stays

    def _token(self) -> bytes:
        with suppress(OSError):
            return (self._folder / TOKEN_FILE).read_bytes()
        return b""

    def _all_left(self, now_s: float) -> bool:
        """``now_s``: by the clock of the file system, which is the same for all."""
        left = set(self._numbers("left"))
        told = {number: self._folder / f"d-{number}" for number in self._numbers("d")}
        return all(
            number in left or now_s - path.stat().st_mtime > GONE_S or path.stat().st_size == 0
            for number, path in told.items()
        )

    def _numbers(self, kind: str) -> list[int]:
        """Of the files of one kind, as the listing tells."""
        stems = (path.name.split("-") for path in self._ours())
        return [int(stem[1]) for stem in stems if stem[0] == kind and int(stem[1]) < MAX_NODES]

    def _ours(self) -> list[Path]:
        """Files that this class or the token made."""
        with os.scandir(self._folder) as entries:
            return [
                self._folder / entry.name
                for entry in entries
                if _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            ]

    def close(self) -> None:
        """As :class:`KeyValueExchange`."""
        if self._readers is not None:
            self._readers.shutdown(wait=False, cancel_futures=True)

    def _try_seat(self, path: Path, name: str) -> bool:
        """Nobody sits there, or who does is called as we are. Takes it."""
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
                file.write(name)
            return True
        except FileExistsError:
            with suppress(OSError):
                return path.read_text() == name
            return False
        except OSError as error:
            raise ExchangeError(f"{path}: {error.strerror or error}") from error

    def _claim_seat(self, number: int, name: str) -> None:
        """Where it is unknown how many nodes there are, who leads looks for seats."""
        try:
            (self._folder / f"left-{number}").unlink(missing_ok=True)
            if not self._count:
                (self._folder / f"seat-{number}").write_text(name)
        except OSError as error:
            raise ExchangeError(f"{self._folder}: {error.strerror or error}") from error
        self._seat, self._known_token = number, self._token()
        self._known = max(self._known, number + 1)

    def _path(self, key: str) -> Path:
        return self._folder / key.replace("/", "-")

    def _read(self, key: str) -> bytes:
        try:
            number = os.open(self._path(key), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                data = os.pread(number, MAX_BYTES + 128, 0)
            finally:
                os.close(number)
        except OSError as error:
            raise ExchangeError(f"{self._folder}: {error.strerror or error}") from error
        length = int.from_bytes(data[:4], "big")
        return data[4 : 4 + length] if 4 + length <= len(data) else b""
