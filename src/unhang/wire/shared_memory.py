"""Small private files as memory that two processes share."""

from __future__ import annotations

import mmap
import os
import sys
from contextlib import suppress
from pathlib import Path

MappedMemory = mmap.mmap | memoryview


def allocate_file(path: Path, size: int) -> int:
    """A new private file whose bytes exist: a full disk under a sparse map would be SIGBUS. Returns its descriptor.

    Raises:
        OSError: the folder is missing, read-only or full. No file is left then.
    """
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.posix_fallocate(number, 0, size)
    except BaseException:
        os.close(number)
        with suppress(OSError):
            path.unlink()
        raise
    return number


def map_file(number: int, size: int, *, writable: bool = True) -> MappedMemory:
    """The bytes of an open file. Keeps no descriptor: in a rank that would shift the program's own numbers, and be
    closed under us by programs that close what they do not know.

    Raises:
        OSError: it cannot be mapped.
    """
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    if sys.version_info >= (3, 13):
        return mmap.mmap(number, size, access=access, trackfd=False)
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long]
    protection = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
    address = libc.mmap(None, size, protection, mmap.MAP_SHARED, number, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "cannot map the record")
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")
