"""Streams that keep readers safe: they count, stop at a limit, and turn a broken source into an end and a reason."""

from __future__ import annotations

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import BinaryIO

from unhang.errors import ArchiveError, ObjectError

STREAM_ERRORS = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
"""What decompressors and disks raise in the middle of a read."""


_HOLE_BYTES = 1 << 15


class UnpackBudget:
    """What archives may still unpack. ``spend`` raises ArchiveError when it is used up."""

    def __init__(self, left: int, why: str, parent: UnpackBudget | None = None) -> None:
        self.left = left
        self.why = why
        self.parent = parent

    def spend(self, count: int) -> None:
        """Take ``count`` bytes off this budget and its parents."""
        self.left -= count
        if self.left < 0:
            raise ArchiveError(self.why)
        if self.parent is not None:
            self.parent.spend(count)


class RawStream(io.RawIOBase):
    """A stream whose ``read`` is our own: what the buffered readers above it ask for is made of that."""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill ``buffer``; how many bytes it got."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # the base says object, buffers come
        chunk = self.read(len(view)) or b""
        view[: len(chunk)] = chunk
        return len(chunk)


class BudgetedStream(RawStream):
    """``stream``, but every byte read is taken off ``budget``."""

    def __init__(self, stream: BinaryIO, budget: UnpackBudget) -> None:
        super().__init__()
        # one step at a time where that is offered: a read that must be whole loses what came before a tear
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self._budget = budget

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes; -1 reads in pieces so that a bomb stops at its limit."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        chunk = self._read(size)
        self._budget.spend(len(chunk))
        return chunk


class TolerantStream(RawStream):
    """Stream that ends at the first read error and keeps it in ``trouble``; bytes in ``head`` are read first."""

    def __init__(self, stream: BinaryIO, head: bytes = b"", seen: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self._stream = stream
        self._head = head
        self._seen = seen
        self.trouble = ""
        self.ends_after: int | None = None
        """So many bytes are all there is."""
        self.skips_holes = False
        """Leave out stretches of NUL bytes (a file with a hole): they say nothing and cost a reader of lines dear."""

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes, or all for -1; empty at the end or after trouble."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        while True:
            chunk = self._next(size)
            if self._seen is not None and chunk:
                self._seen(len(chunk))
            if not (self.skips_holes and len(chunk) >= _HOLE_BYTES and _is_hole(chunk)):
                return chunk

    def _next(self, size: int) -> bytes:
        if self.ends_after is None:
            return self._following(size)
        chunk = self._following(min(size, self.ends_after))
        self.ends_after -= len(chunk)
        return chunk

    def _following(self, size: int) -> bytes:
        if self._head:
            chunk, self._head = self._head[:size], self._head[size:]
            return chunk
        if self.trouble:
            return b""
        try:
            return self._stream.read(size)
        except (ArchiveError, ObjectError) as error:
            self.trouble = str(error)
        except STREAM_ERRORS as error:
            self.trouble = f"is cut short or damaged ({error or type(error).__name__})"
        return b""


def _is_hole(chunk: bytes) -> bool:
    return chunk[0] == 0 and chunk.count(0) == len(chunk)


def read_head(stream: BinaryIO, size: int) -> tuple[bytes, str]:
    """The first ``size`` bytes of ``stream`` and what went wrong on the way (empty when nothing did)."""
    tolerant, head = TolerantStream(stream), b""
    while len(head) < size and (chunk := tolerant.read(size - len(head))):
        head += chunk
    return head, tolerant.trouble
