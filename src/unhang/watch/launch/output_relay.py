"""Copy a growing file to one of our own standard streams without ever blocking on it."""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress
from pathlib import Path

CHUNK = 4096
"""At most PIPE_BUF: a pipe that reports room takes this much at once."""
KEPT = 1 << 20


class OutputRelay:
    """Prints what is added to ``source`` on descriptor ``target``.

    Pipes and terminals are opened anew without blocking: the flag on the inherited descriptor would be the job's too.
    ``noted``: a descriptor of a file that keeps how far it came, for whoever goes on after us.
    """

    def __init__(self, source: Path, target: int, *, noted: int | None = None) -> None:
        self._source, self._left, self._noted = source, b"", noted
        self._at = self._printed = printed_so_far(noted)
        self._target = _nonblocking_descriptor(target)
        self._file: int | None = None

    def pump(self) -> bool:
        """Print what can be printed now. True when everything said so far is out (or nobody can read it)."""
        self._read()
        while self._left and self._target is not None:
            try:
                # A regular file is always ready; a full pipe waits for its reader, not we for it.
                if not select.select([], [self._target], [], 0)[1]:
                    return False
                written = os.write(self._target, self._left[:CHUNK])
            except BlockingIOError:
                return False
            except (OSError, ValueError):
                self._target = None
                break
            self._left = self._left[written:]
            self._note(written)
            if not self._left:
                self._read()
        return True

    def _note(self, written: int) -> None:
        self._printed += written
        if self._noted is not None:
            with suppress(OSError):
                os.pwrite(self._noted, b"%20d" % self._printed, 0)

    def _read(self) -> None:
        if self._file is None:
            with suppress(OSError):
                self._file = os.open(self._source, os.O_RDONLY | os.O_CLOEXEC)
        if self._file is not None and len(self._left) < KEPT:
            with suppress(OSError):
                data = os.pread(self._file, KEPT, self._at)
                self._at += len(data)
                self._left += data


def printed_so_far(noted: int | None) -> int:
    """Bytes that were printed, as the file behind ``noted`` keeps it; 0 where nothing tells."""
    if noted is not None:
        with suppress(OSError, ValueError):
            return int(os.pread(noted, 20, 0))
    return 0


def _nonblocking_descriptor(target: int) -> int | None:
    """A descriptor for the same thing that may be written to without blocking anybody; None when it is closed."""
    try:
        mode = os.fstat(target).st_mode
    except OSError:
        return None
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        with suppress(OSError):
            return os.open(f"/proc/self/fd/{target}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return target
