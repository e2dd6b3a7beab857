"""Whether a log comes through standard input, so that no path need be named."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress

PATIENCE_S = 5.0
"""So long a pipe may be silent before it is taken for one that nobody writes to: a scheduler's, an editor's."""


def standard_input_has_text() -> bool:
    """A pipe that somebody writes to, or a file (``unhang < job.log``) of which nobody has read yet: the rest of a
    script that a shell reads is not for us."""
    with suppress(OSError, ValueError):
        number = sys.stdin.fileno()
        kind = os.fstat(number)
        if stat.S_ISREG(kind.st_mode):
            return kind.st_size > 0 and os.lseek(number, 0, os.SEEK_CUR) == 0
        return stat.S_ISFIFO(kind.st_mode) and _holds_text(number)
    return False


def _holds_text(pipe: int) -> bool:
    import array
    import select

    if os.name != "posix" or not select.select([pipe], [], [], PATIENCE_S)[0]:
        return False
    import fcntl
    import termios

    size = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, size)  # nothing to read: its writer has ended
    return size[0] > 0
