"""The record of one rank: the writer's side, and the reader's."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from unhang.wire.layout import decode_text, pack, truncate_start, unpack
from unhang.wire.record_views import RankIdentity, RecordView
from unhang.wire.shared_memory import MappedMemory, allocate_file, map_file

LAYOUT_VERSION = 5
SIZE = 32768
MAGIC = b"UNHANGR1"
HEADER_AT = 0
SLOT_AT = (256, 256 + 16256)
SLOT_SIZE = 16256
_HEADER = struct.Struct("<8sIIqqqqqq32s32s")
_SLOT_HEAD = struct.Struct("<QII")
_READ_RETRIES = 5


class RecordWriter:
    """The writer's side. One process, one thread; ``now`` is what the next :meth:`publish` says."""

    def __init__(self, memory: MappedMemory, now: RecordView) -> None:
        self._memory, self._sequence = memory, 0
        self.now = now

    @classmethod
    def create(cls, path: Path, identity: RankIdentity) -> RecordWriter:
        """A new record at ``path``, which must not exist, with a first (empty) beat already in it.

        Raises:
            OSError: it exists, the folder is missing or read-only, or there is no room for it.
        """
        number = allocate_file(path, SIZE)
        try:
            memory = map_file(number, SIZE)
        finally:
            os.close(number)
        record = cls(memory, RecordView(identity=identity))
        record.write_identity()
        record.publish()
        return record

    def write_identity(self) -> None:
        """Write the header again, for a rank that learns its number only when its group stands."""
        identity = self.now.identity
        self._memory[HEADER_AT : HEADER_AT + _HEADER.size] = _HEADER.pack(
            MAGIC,
            LAYOUT_VERSION,
            SIZE,
            identity.pid,
            identity.rank,
            identity.local_rank,
            identity.world_size,
            identity.attempt,
            identity.armed_ns,
            truncate_start(identity.python, 32),
            truncate_start(identity.torch, 32),
        )

    def publish(self) -> None:
        """Write ``now`` into the slot the last beat is not in. Never blocks; memory only."""
        data = pack(self.now)
        self._sequence += 1
        at = SLOT_AT[self._sequence % 2]
        start = at + _SLOT_HEAD.size
        _SLOT_HEAD.pack_into(self._memory, at, 0, 0, 0)  # nobody trusts this slot while it changes
        self._memory[start : start + len(data)] = data
        _SLOT_HEAD.pack_into(self._memory, at, self._sequence, len(data), zlib.crc32(data))


def read_record(path: Path) -> RecordView | None:
    """What the record at ``path`` says now; None when it is missing, foreign, or torn at every one of five reads."""
    for _ in range(_READ_RETRIES):
        data, identity = _read(path, SIZE)
        if identity is None:
            return None
        view = _newest(data, identity)
        if view is not None:
            return view
    return None


def _read(path: Path, length: int) -> tuple[bytes, RankIdentity | None]:
    """The first ``length`` bytes of a record, and who it is; None for what is missing or no record."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b"", None
    try:
        data = os.read(number, length)
        return data, _identity(data) if len(data) == length and os.fstat(number).st_size == SIZE else None
    except OSError:
        return b"", None
    finally:
        os.close(number)


def _identity(data: bytes) -> RankIdentity | None:
    magic, layout, size, *values = _HEADER.unpack_from(data, HEADER_AT)
    if magic != MAGIC or layout != LAYOUT_VERSION or size != SIZE:
        return None
    pid, rank, local_rank, world_size, attempt, armed_ns, python, torch = values
    return RankIdentity(pid, rank, local_rank, world_size, attempt, armed_ns, decode_text(python), decode_text(torch))


def _newest(data: bytes, identity: RankIdentity) -> RecordView | None:
    for payload in (found for _, found in sorted(_whole_slots(data), reverse=True)):
        with suppress(struct.error, IndexError):
            return unpack(payload, identity)
    return None


def _whole_slots(data: bytes) -> Iterator[tuple[int, bytes]]:
    for at in SLOT_AT:
        sequence, length, checksum = _SLOT_HEAD.unpack_from(data, at)
        start = at + _SLOT_HEAD.size
        payload = data[start : start + length]
        if sequence and length <= SLOT_SIZE - _SLOT_HEAD.size and zlib.crc32(payload) == checksum:
            yield sequence, payload


def record_path(folder: Path, attempt: int, pid: int) -> Path:
    """Where the record of one process lies."""
    return folder / f"{attempt}.{pid}.rec"


def read_records(folder: Path) -> dict[Path, RecordView]:
    """Every readable record of a records folder, by path; files that are no record (yet) are left out."""
    try:
        paths = sorted(folder.glob("*.rec"))
    except OSError:
        return {}
    return {path: view for path in paths if (view := read_record(path)) is not None}


def read_foreign_pids(folder: Path) -> set[int]:
    """The processes of a records folder whose records another version of unhang wrote."""
    pids = set()
    for path in folder.glob("*.rec"):
        with suppress(OSError, ValueError, struct.error), path.open("rb") as file:
            magic, version = struct.unpack("<8sI", file.read(12))
            if magic == MAGIC and version != LAYOUT_VERSION:
                pids.add(int(path.name.split(".")[1]))
    return pids


def find_record(folder: Path, rank: int) -> RecordView | None:
    """The record of ``rank`` in its last attempt, by reading heads only until it is found; None without one."""
    found: tuple[int, Path] | None = None
    try:
        for entry in os.scandir(folder):
            identity = _read(Path(entry.path), _HEADER.size)[1] if entry.name.endswith(".rec") else None
            if identity is not None and identity.rank == rank and (found is None or found[0] <= identity.attempt):
                found = (identity.attempt, Path(entry.path))
    except OSError:
        return None
    return read_record(found[1]) if found is not None else None
