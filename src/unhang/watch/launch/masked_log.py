"""Secrets in a captured log are overwritten where they stand, as the log grows and once more when the command ended.

Looking takes longer than writing, and the job's output must not wait for it: what it prints stands there for a moment.
Nothing moves: a secret is replaced by as many letters. A process of its own does it, with what time nobody else wants;
it lives as long as anybody writes the logs, also when the command runner was killed.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from unhang.watch.launch.helper_process import detach, fork_helper, new_pipe

_CHUNK = 1 << 16
_PAUSE_S, _STRETCH_S, _WAIT_S = 0.1, 1.0, 0.02
_LAST_S = 30.0
_NICE = 19
_KEY_BEGINS, _KEY_ENDS = b"-----BEGIN", b"-----END"


class MaskedLog:
    """Masks secrets in one captured log, in place."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._place = mmap.mmap(-1, 8)  # shared with who is forked from us

    @property
    def _at(self) -> int:
        """Everything before is masked."""
        return int.from_bytes(self._place[:], "little")

    @_at.setter
    def _at(self, at: int) -> None:
        self._place[:] = at.to_bytes(8, "little")

    def tick(self, for_s: float) -> bool:
        """Mask the whole lines there are, for so long at most; True when all of them were masked."""
        with suppress(OSError):
            return self._mask(self._path.stat().st_size, time.monotonic() + for_s, last=False)
        return False

    def finish(self, for_s: float) -> int:
        """Mask the rest, for ``for_s`` seconds at most; bytes left unmasked."""
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
                while _wait_for_lock(file, deadline) and self._at < upto:
                    data = os.pread(file, min(_CHUNK, upto - self._at), self._at)
                    whole = data if last and self._at + len(data) >= upto else _whole_lines(data)
                    if not whole:
                        return not last
                    _overwrite(file, self._at, whole)
                    self._at += len(whole)
                    if time.monotonic() > deadline:
                        break
            finally:
                os.close(file)
        return self._at >= upto


def _wait_for_lock(file: int, deadline: float) -> bool:
    """Whether ``file`` is ours: two that mask the same piece take twice as long."""
    while not _try_lock(file):
        if time.monotonic() > deadline:
            return False
        time.sleep(_WAIT_S)
    return True


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


class MaskingProcess:
    """Background process that masks secrets until all writers have closed :attr:`held`."""

    def __init__(self) -> None:
        """Create the pipe whose closing ends it.

        Raises:
            OSError: too many open files.
        """
        self._ended, self.held = new_pipe()
        self._logs: Sequence[MaskedLog] = ()
        self._pid = 0

    def start(self, logs: Sequence[MaskedLog]) -> None:
        """Begin with ``logs``.

        Raises:
            OSError: there is no room for a process.
        """
        self._logs = logs
        self._pid = fork_helper(self._work)

    def reaped(self, pid: int, status: int) -> None:
        """Process ``pid`` has ended. If it was ours and somebody killed it, another goes on where it was."""
        if pid == self._pid and os.WIFSIGNALED(status):
            with suppress(OSError):
                self.start(self._logs)

    def _work(self) -> int:
        detach((self._ended,))
        os.nice(_NICE)
        while not select.select([self._ended], [], [], _PAUSE_S)[0]:
            for log in self._logs:
                log.tick(_STRETCH_S)
        for log in self._logs:
            log.finish(_LAST_S)
        return 0


def _whole_lines(data: bytes) -> bytes:
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
