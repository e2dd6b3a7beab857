"""What the watcher asks of the ranks: one small file, written beside the job, read at every beat.

A rank sleeps on a FIFO beside its record: whoever writes a byte to it ends that sleep before its time.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unhang.wire.shared_memory import MappedMemory, allocate_file, map_file

LAYOUT_VERSION = 1
MAGIC = b"UNHANGC1"
CONTROL_SIZE = 4096
DEFAULT_BEAT_MS = 250
WAKE_FIFO_SUFFIX = ".bell"
_CHECKSUM = struct.Struct("<I")
_CONTROL = struct.Struct("<8sIIQQIIq")


@dataclass(slots=True)
class Control:
    """What the watcher asks of every rank; it writes, ranks read at each beat.

    ``dump_request`` and ``stacks_request`` are counters: a rank writes a dump (without stacks; with stacks) when one
    rose since it last served it. ``stacks_rank``: the only rank to answer ``stacks_request``, -1 for every rank.
    ``watcher_pid``: who may look at the ranks' memory; 0 while unknown. ``beat_ms``: wanted time between two beats
    (10 to 10,000). ``collectives_per_step``: collectives of the busiest group in one step of the loop, found in a
    dump; ranks count whole steps from then on. 0 while unknown.
    """

    dump_request: int = 0
    stacks_request: int = 0
    stacks_rank: int = -1
    beat_ms: int = DEFAULT_BEAT_MS
    watcher_pid: int = 0
    collectives_per_step: int = 0

    @staticmethod
    def create(folder: Path) -> ControlWriter:
        """A new control file in ``folder``. Raises OSError when it cannot be made."""
        number = allocate_file(folder / "control", CONTROL_SIZE)
        try:
            memory = mmap.mmap(number, CONTROL_SIZE)
        finally:
            os.close(number)
        writer = ControlWriter(memory, folder)
        writer.publish()
        return writer

    @staticmethod
    def open_read(folder: Path) -> ControlReader | None:
        """The reader's side of the control file in ``folder``; None when there is none or it is not ours."""
        try:
            number = os.open(folder / "control", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            if os.fstat(number).st_size != CONTROL_SIZE:
                return None
            return ControlReader(map_file(number, CONTROL_SIZE, writable=False))
        except (OSError, ValueError):
            return None
        finally:
            os.close(number)


class ControlWriter:
    """The watcher's side: change ``now``, then :meth:`publish`. Whoever asks for a dump also writes to the ranks' wake
    FIFOs."""

    def __init__(self, memory: mmap.mmap, folder: Path) -> None:
        self._memory, self._folder = memory, folder
        self.now = Control()

    def publish(self) -> None:
        """Write ``now``. Never blocks."""
        now = self.now
        data = _CONTROL.pack(
            MAGIC,
            LAYOUT_VERSION,
            now.beat_ms,
            now.dump_request,
            now.stacks_request,
            now.watcher_pid,
            now.collectives_per_step,
            now.stacks_rank,
        )
        self._memory[4 : 4 + len(data)] = data
        _CHECKSUM.pack_into(self._memory, 0, zlib.crc32(data))

    def close(self) -> None:
        """Let the memory go; the file stays."""
        self._memory.close()

    def ask_dump(self) -> int:
        """Ask every rank for a dump without stacks; returns the number that ``dump_served`` will reach."""
        self.now.dump_request += 1
        self.publish()
        wake_all(self._folder)
        return self.now.dump_request

    def ask_stacks(self, rank: int = -1) -> int:
        """Ask ``rank`` (-1: every rank) for a dump with stacks; returns the number ``stacks_served`` will reach."""
        self.now.stacks_request += 1
        self.now.stacks_rank = rank
        self.publish()
        wake_all(self._folder)
        return self.now.stacks_request


class ControlReader:
    """The rank's side. :meth:`read` keeps the last whole answer: a torn one is read again at the next beat."""

    def __init__(self, memory: MappedMemory) -> None:
        self._memory = memory
        self._last, self._bytes = Control(), b""

    def read(self) -> Control:
        """What is asked for now."""
        data = bytes(self._memory[: 4 + _CONTROL.size])
        if data == self._bytes:
            return self._last
        self._bytes = data
        (checksum,) = _CHECKSUM.unpack_from(data)
        data = data[4:]
        if zlib.crc32(data) != checksum:
            self._bytes = b""
            return self._last
        magic, layout, beat_ms, dump, stacks, watcher_pid, per_step, stacks_rank = _CONTROL.unpack(data)
        if magic == MAGIC and layout == LAYOUT_VERSION:
            self._last = Control(dump, stacks, stacks_rank, beat_ms, watcher_pid, per_step)
        return self._last


def wake_all(folder: Path) -> None:
    """Wake our thread in every rank of the records folder ``folder``. Never blocks, never raises."""
    with suppress(OSError):
        for path in folder.glob(f"*{WAKE_FIFO_SUFFIX}"):
            _wake(path)


def _wake(path: Path) -> None:
    with suppress(OSError):  # nobody sleeps on it any more, or it is full of rings
        number = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.write(number, b"\0")
        finally:
            os.close(number)
