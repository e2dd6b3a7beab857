"""What a process of ours asks of the kernel about itself."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def end_with_parent(parent: int, number: int = signal.SIGKILL) -> bool:
    """Get signal ``number`` when process ``parent`` ends; False where it ended before that could be asked for."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    return os.getppid() == parent
