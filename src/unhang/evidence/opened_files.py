"""Every file the inputs hold, in archives too, opened once. A piece's stream is valid until the next piece."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from unhang.errors import ArchiveError, ObjectError
from unhang.evidence.bounded_streams import STREAM_ERRORS, TolerantStream, UnpackBudget, read_head
from unhang.evidence.format_detection import HEAD_BYTES, DetectedFormat, FileKind, detect_format, is_text
from unhang.evidence.found_files import FileIdentity, FoundFile, FoundFiles, open_regular_file, unreadable_reason
from unhang.evidence.read_limits import ReadLimits
from unhang.findings import Source, Unread

if TYPE_CHECKING:
    from unhang.evidence.flight_recorder.ranged_dump import RangedDump
    from unhang.evidence.objects.listing import FoundObject
    from unhang.evidence.objects.stream import ObjectsAhead, ObjectStream

_PACKED = frozenset((FileKind.TAR, FileKind.ZIP, FileKind.COMPRESSED))
_NESTED_DEEPER = "is an archive inside an archive inside an archive; unpack the outer one first"


@dataclass(slots=True)
class OpenedFile:
    """One file of evidence. ``path`` is set when it lies on disk as it is, ``remote`` when it does so behind a URL;
    ``size`` is in bytes, -1 when not known."""

    name: str
    decision: DetectedFormat
    head: bytes
    stream: TolerantStream
    size: int
    path: Path | None = None
    identity: FileIdentity | None = None
    modified_s: float | None = None
    remote: ObjectStream | None = None

    def buffered(self) -> BinaryIO:
        """The whole content as a buffered stream."""
        return io.BufferedReader(self.stream, 1 << 20)

    def remote_dump(self) -> RangedDump | None:
        """A dump behind a URL of which only both ends were fetched."""
        if self.remote is None or not self.remote.tail:
            return None
        from unhang.evidence.flight_recorder.ranged_dump import RangedDump

        return RangedDump(self.remote.head, self.remote.tail, self.remote.size, self.remote.fetch)

    def whole(self, limit: int) -> bytes | None:
        """The whole content, or None when it is larger than ``limit`` bytes."""
        content = self.buffered().read(limit + 1)
        return None if len(content) > limit else content


class OpenedFiles:
    """Walks what was found. ``seen`` hears (bytes read, name) while files are read."""

    def __init__(self, found: FoundFiles, limits: ReadLimits, seen: Callable[[int, str], None] | None = None) -> None:
        self._found = found
        self._limits = limits
        self._seen = seen
        self._budget = UnpackBudget(limits.unpacked, "unpacks to more than may be read")
        self._ahead: ObjectsAhead | None = None

    def __iter__(self) -> Iterator[OpenedFile | Unread]:
        for text in self._found.pipes:
            yield from self._guarded(text, self._pipe(text))
        objects = [file for file in self._found.files if not isinstance(file, FoundFile)]
        self._ahead = _begun(objects) if objects else None
        for file in self._found.files:
            yield from self._guarded(file.name, self._file(file) if isinstance(file, FoundFile) else self._object(file))

    @staticmethod
    def _guarded(name: str, pieces: Iterator[OpenedFile | Unread]) -> Iterator[OpenedFile | Unread]:
        """``pieces`` of one file, up to where looking into it fails: torn archives raise in more ways than are told."""
        try:
            yield from pieces
        except Exception as error:  # noqa: BLE001 - one file that cannot be opened up must not cost the others
            yield Unread.after(error, Source(name))

    def _pipe(self, text: str) -> Iterator[OpenedFile | Unread]:
        name = "stdin" if text == "-" else text
        try:
            stream = sys.stdin.buffer if text == "-" else Path(text).open("rb")  # noqa: SIM115 - closed by the process
        except OSError as error:
            yield Unread(Source(name), unreadable_reason(error))
            return
        yield from self._content(cast("BinaryIO", stream), name, -1, depth=0)

    def _file(self, file: FoundFile) -> Iterator[OpenedFile | Unread]:
        try:
            handle = open_regular_file(file.path, file.identity)
        except OSError as error:
            yield Unread(Source(file.name), unreadable_reason(error))
            return
        with handle:
            yield from self._content(handle, file.name, file.size, depth=0, file=file)

    def _object(self, file: FoundObject) -> Iterator[OpenedFile | Unread]:
        assert self._ahead is not None
        try:
            stream = self._ahead.next()
        except ObjectError as error:
            yield Unread(Source(file.name), unreadable_reason(error))
            return
        size = stream.size if stream.size_is_known else -1
        yield from self._content(cast("BinaryIO", stream), file.name, size, depth=0, remote=stream)

    def _content(
        self,
        stream: BinaryIO,
        name: str,
        size: int,
        *,
        depth: int,
        file: FoundFile | None = None,
        remote: ObjectStream | None = None,
    ) -> Iterator[OpenedFile | Unread]:
        head, trouble = read_head(stream, len(remote.head) if remote is not None and remote.tail else HEAD_BYTES)
        if trouble and not head:
            yield Unread(Source(name), trouble)
            return
        decision = detect_format(head, name)
        whole = TolerantStream(stream, head, self._counter(name) if depth == 0 else None)
        whole.trouble = trouble
        if decision.kind in _PACKED:
            lies_there = file is not None or (remote is not None and remote.size_is_known)
            yield from self._archive(stream, whole, name, size, depth, lies_there=lies_there)
            return
        if decision.kind is FileKind.BINARY and size > 0 and depth == 0 and _text_after_hole(head, stream, size):
            decision = DetectedFormat(FileKind.LOG)
        piece = OpenedFile(name, decision, head, whole, size)
        if file is not None:
            piece.path, piece.identity, piece.modified_s = file.path, file.identity, file.modified_s
        elif remote is not None:
            piece.remote, piece.modified_s = remote, remote.modified_s
        yield piece
        if remote is not None and decision.kind is FileKind.RECORDING and self._seen is not None:
            self._seen(size, name)
        if whole.trouble:
            yield Unread(Source(name), f"{whole.trouble}; what came before that was read")

    def _archive(
        self, stream: BinaryIO, whole: TolerantStream, name: str, size: int, depth: int, *, lies_there: bool
    ) -> Iterator[OpenedFile | Unread]:
        if depth >= 2:
            yield Unread(Source(name), _NESTED_DEEPER)
            return
        if lies_there:
            stream.seek(0)
            yield from self._members(stream, name, size, depth)
            if self._seen is not None:
                self._seen(size, name)
            return
        import tempfile

        with tempfile.TemporaryFile(prefix="unhang-") as spool:
            try:
                size = _spool(whole, cast("BinaryIO", spool), self._limits)
            except ArchiveError as error:
                yield Unread(Source(name), str(error))
                return
            yield from self._members(cast("BinaryIO", spool), name, size, depth)

    def _members(self, stream: BinaryIO, name: str, size: int, depth: int) -> Iterator[OpenedFile | Unread]:
        from unhang.evidence.archives import unpack  # most evidence stands in no archive

        for member in unpack(stream, name=name, size=size, limits=self._limits, budget=self._budget):
            if isinstance(member, Unread):
                yield member
                continue
            yield from self._content(member.stream, f"{name}!{member.name}", member.size, depth=depth + 1)

    def _counter(self, name: str) -> Callable[[int], None] | None:
        seen = self._seen
        if seen is None:
            return None
        return lambda count: seen(count, name)


def _begun(objects: list[FoundObject]) -> ObjectsAhead:
    from unhang.evidence.flight_recorder.dump_detection import is_read_at_both_ends
    from unhang.evidence.objects.stream import ObjectsAhead

    return ObjectsAhead(objects, is_read_at_both_ends)


def _spool(whole: TolerantStream, spool: BinaryIO, limits: ReadLimits) -> int:
    """Copy an archive that cannot be sought in to a temporary file of its own; its size in bytes."""
    size = 0
    source = io.BufferedReader(whole, 1 << 20)
    while chunk := source.read(1 << 20):
        size += len(chunk)
        if size > limits.unpacked:
            raise ArchiveError("is too large to read")
        spool.write(chunk)
    spool.seek(0)
    return size


def _text_after_hole(head: bytes, stream: BinaryIO, size: int) -> bool:
    """A log that was cut to nothing while its writer went on starts with a hole of NUL bytes; its end is text."""
    if head.strip(b"\0") or size <= len(head):
        return False
    try:
        stream.seek(max(0, size - HEAD_BYTES))
        tail = stream.read(HEAD_BYTES)
        stream.seek(len(head))
    except STREAM_ERRORS:
        return False
    return bool(tail) and b"\n" in tail and is_text(tail.lstrip(b"\0"))
