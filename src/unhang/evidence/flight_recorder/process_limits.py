"""Hold a process to the memory and the processor time that reading one dump can need.

Python's own unpickler is fast, but a pickle can make it allocate without end, or hash for hours. It is used only where
the kernel says no to that: in a process of its own, for one file at a time.
"""

from __future__ import annotations

import gc
import math
import mmap
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import resource

MEMORY_BYTES: Final = 512 << 20
"""The most one dump may need. Its objects need up to 25 times its own size; the longest known dump has 3 MB."""
_MEMORY_FLOOR: Final = 128 << 20
_MEMORY_RATIO: Final = 48
_CPU_FLOOR_S: Final = 5
_BYTES_PER_CPU_SECOND: Final = 2 << 20
"""Our own machine, which reads torn pickles, manages twice as much."""
_PROBE: Final = 64 << 20


def memory_limit_works() -> bool:
    """Whether this system refuses a process more memory than it allowed it: only Linux does, and not every sandbox."""
    if sys.platform != "linux":
        return False
    with _lowered(resource.RLIMIT_AS, _address_space() + _PROBE):
        try:
            mmap.mmap(-1, 2 * _PROBE).close()
        except OSError:
            return True
    return False


def cpu_seconds(size: int) -> int:
    """The processor time that a dump of ``size`` bytes may take."""
    return _CPU_FLOOR_S + size // _BYTES_PER_CPU_SECOND


def disable_core_files() -> None:
    """Leave no image of this process behind should a dump end it."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


@contextmanager
def limited_process(size: int) -> Iterator[None]:
    """Within it this process may take as much memory and processor time as a dump of ``size`` bytes can need.

    Too much memory is a ``MemoryError``; too much processor time ends the process (SIGXCPU).
    """
    memory = min(MEMORY_BYTES, _MEMORY_FLOOR + _MEMORY_RATIO * size)
    seconds = math.ceil(time.process_time()) + cpu_seconds(size)
    gc.disable()  # plain values form no circles worth finding, and looking for them takes as long as reading
    try:
        with _lowered(resource.RLIMIT_AS, _address_space() + memory), _lowered(resource.RLIMIT_CPU, seconds):
            yield
    finally:
        gc.enable()


@contextmanager
def _lowered(kind: int, wanted: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (wanted if soft == resource.RLIM_INFINITY else min(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * mmap.PAGESIZE
