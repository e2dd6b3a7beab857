"""One shard: written beside, hashed on the way, moved into its place when it is whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from unhang.errors import MissingExtra
from unhang_reshard.samples import Fields
from unhang_reshard.work_folder import sync_folder

BLOCK = 1 << 20


@dataclass(frozen=True)
class Shard:
    """A shard that is in its place."""

    name: str
    samples: int
    bytes: int
    sha256: str
    spares: int = 0
    """Samples that stood in for one that could no longer be read."""
    changed: int = 0
    """Places that had to be filled with another sample."""


class _HashingFile:
    """A file that hashes what is written to it, a block at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._sum, self._held = file, hashlib.sha256(), bytearray()
        self.size = 0

    def write(self, data: bytes) -> int:
        self._held += data
        if len(self._held) >= BLOCK:
            self._pass_on()
        return len(data)

    def finish(self) -> str:
        self._pass_on()
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._sum.hexdigest()

    def _pass_on(self) -> None:
        self._sum.update(self._held)
        self._file.write(self._held)
        self.size += len(self._held)
        self._held = bytearray()


def tar_writer() -> Any:
    """The library's writer.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        from webdataset.writer import TarWriter
    except ImportError as error:
        raise MissingExtra("writing shards needs the library webdataset", next_step="pip install webdataset") from error
    return TarWriter


def write_shard(path: Path, part: Path, samples: Iterable[tuple[str, Fields]]) -> Shard:
    """Write ``path`` by way of ``part``; the same samples give the same bytes.

    Raises:
        OSError: the disk is full or gone; ``path`` is as it was.
    """
    count = 0
    with part.open("wb", buffering=0) as file:
        hashed = _HashingFile(file)
        # a whole number for mtime: a float would cost every part a header of its own
        writer = tar_writer()(hashed, encoder=False, mtime=0, user="", group="", mode=0o644)
        for key, fields in samples:
            writer.write({"__key__": key, **fields})
            count += 1
        writer.close()
        checksum = hashed.finish()
    part.replace(path)
    sync_folder(path.parent)
    return Shard(path.name, count, hashed.size, checksum)
