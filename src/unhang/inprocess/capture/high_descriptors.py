"""Files that stay open beside the program's own: with high numbers, and given up once the program closed them."""

from __future__ import annotations

import fcntl
import os
import resource

_HIGH = 900


def move_to_high_number(low: int) -> int:
    """The file ``low`` under a high number, which programs that close or count the low ones do not meet."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        number = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, max(3, min(_HIGH, limit - 64)))
    except OSError:
        return low
    os.close(low)
    return number


class OpenFile:
    """A file number and how to see that it is still ours. ``number`` is -1 once it was let go."""

    def __init__(self, low: int) -> None:
        self.number = move_to_high_number(low)
        self._inode = os.fstat(self.number).st_ino

    def is_still_ours(self) -> bool:
        """The program has neither closed it nor put a file of its own in its place."""
        try:
            return self.number >= 0 and os.fstat(self.number).st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        """Close it, unless the program did."""
        if self.is_still_ours():
            os.close(self.number)
        self.number = -1
