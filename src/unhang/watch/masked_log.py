"""Secrets in a captured log are overwritten where they stand, as the log grows and once more when the command ended.

Looking takes longer than writing, and the job's output must not wait for it: what it prints stands there for a moment.
Nothing moves: a secret is replaced by as many letters.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_CHUNK = 1 << 16
_KEY_BEGINS, _KEY_ENDS = b"-----BEGIN", b"-----END"


class MaskedLog:
    """One captured log."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def go_on(self, for_s: float) -> bool:
        """Look at the whole lines there are, for so long at most; True when all of them were looked at."""
        with suppress(OSError):
            return self._mask(self._path.stat().st_size, time.monotonic() + for_s, last=False)
        return False

    def finish(self, for_s: float) -> int:
        """Look at the rest. How many bytes there was no time, or no way, to look at."""
        with suppress(OSError):
            size = self._path.stat().st_size
            self._mask(size, time.monotonic() + for_s, last=True)
            return max(0, size - self._at)
        return 0

    def _mask(self, upto: int, deadline: float, *, last: bool) -> bool:
        if self._at >= upto:
            return True
        with suppress(OSError):
            file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                while self._at < upto:
                    data = os.pread(file, min(_CHUNK, upto - self._at), self._at)
                    whole = data if last and self._at + len(data) >= upto else _whole(data)
                    if not whole:
                        return not last
                    _overwrite(file, self._at, whole)
                    self._at += len(whole)
                    if time.monotonic() > deadline:
                        break
            finally:
                os.close(file)
        return self._at >= upto


def _whole(data: bytes) -> bytes:
    """The whole lines of ``data``, without a key that goes on behind it; all of it where it is one long line."""
    end = data.rfind(b"\n") + 1
    begins = data.rfind(_KEY_BEGINS, 0, end)
    if begins > 0 and b"PRIVATE" in data[begins : begins + 64] and data.find(_KEY_ENDS, begins, end) < 0:
        end = data.rfind(b"\n", 0, begins) + 1 or end
    return data[:end] if end else data if len(data) == _CHUNK else b""


def _overwrite(file: int, at: int, data: bytes) -> None:
    from unhang.secrets import REMOVED, secret_spans  # a command that is not captured starts without them

    text = data.decode("utf-8", "surrogateescape")
    for start, end in secret_spans(text):
        length = len(_bytes(text[start:end]))
        mask = REMOVED.encode().ljust(length, b"*") if length >= len(REMOVED) else b"*" * length
        os.pwrite(file, mask, at + len(_bytes(text[:start])))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
