"""The bytes of an object, fetched by ranges: a log in few large requests, a dump at its two ends."""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

from unhang.errors import ObjectError
from unhang.evidence.bounded_streams import RawStream
from unhang.evidence.objects.listing import FoundObject, modified_of, version_of
from unhang.evidence.objects.requests import REPLACED, Request, Server
from unhang.evidence.objects.stores import is_web, opening_options, retries_by_itself, store_of

AHEAD = 16
"""So many objects are begun before the reader comes to them: waiting for one overlaps with reading another."""
SMALL_BYTES = 1 << 16
"""So small an object is fetched whole."""
START_BYTES = 1 << 13
END_BYTES = 1 << 15
"""What is fetched of an object that is read at both ends."""
FIRST_BYTES = 1 << 19
"""What is fetched of others before they are read; more than deciding what they are needs."""
BLOCK_BYTES = 8 << 20
_UNKNOWN = 1 << 62


class ObjectStream(RawStream):
    """An object as a stream that can be sought in. Reading raises ObjectError, which says why in plain words.

    ``at_both_ends(start)`` says by its first bytes whether an object is read at its ends only: then no more than
    ``head`` and ``tail`` is fetched before somebody asks for more.
    """

    def __init__(self, found: FoundObject, server: Server, at_both_ends: Callable[[bytes], bool]) -> None:
        super().__init__()
        self.size = found.size if found.size >= 0 else _UNKNOWN
        self.modified_s = found.modified_s
        self.head, self.tail = b"", b""
        self._found = found
        self._server = server
        self._at_both_ends = at_both_ends
        self._position = 0
        self._block, self._block_start = b"", 0
        self._following: tuple[int, Request[bytes]] | None = None
        self._trouble: ObjectError | None = None
        self._one_at_a_time = threading.Lock()
        self._handle: Any = None
        self._opening = server.begin(self._open)

    def opened(self) -> ObjectStream:
        """Itself, once its first bytes are here. Raises ObjectError."""
        self._server.answer(self._opening)
        return self

    def fetch(self, start: int, stop: int) -> bytes:
        """The bytes from ``start`` to ``stop``, all of them. Raises ObjectError."""
        return self._server.answer(self._server.begin(partial(self._fetched, start, stop)))

    @property
    def size_is_known(self) -> bool:
        """Some servers of the web do not tell it."""
        return self.size < _UNKNOWN

    # as a stream

    def seekable(self) -> bool:
        """Only where the end is known."""
        return self.size_is_known

    def tell(self) -> int:
        """Where the next read begins."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go on reading elsewhere."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, begin + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        """``size`` bytes, fewer only at the end and before trouble, or all for -1: blocks of a log begin where they do
        on disk."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(BLOCK_BYTES), b""))
        parts: list[bytes] = []
        while size > 0 and self._position < self.size:
            if not (chunk := self._kept(self._position, size)) and not self._take_block(after=parts):
                break
            parts.append(chunk)
            size -= len(chunk)
            self._position += len(chunk)
        return b"".join(parts)

    def _kept(self, start: int, size: int) -> bytes:
        for begin, part in ((0, self.head), (self._block_start, self._block)):
            if begin <= start < begin + len(part):
                return part[start - begin : start - begin + size]
        return b""

    def _take_block(self, *, after: list[bytes]) -> bool:
        """Get the block where the next read begins; False when there is trouble, which is raised the next time if
        something was read ``after`` which it came."""
        if self._trouble is not None:
            raise self._trouble
        try:
            self._next_block(self._position)
        except ObjectError as error:
            self._trouble = error
            if not after:
                raise
            return False
        return True

    def _next_block(self, start: int) -> None:
        goes_on = start in (len(self.head), self._block_start + len(self._block))
        begun, self._following = self._following, None
        request = begun[1] if begun is not None and begun[0] == start else self._begin_block(start)
        self._block = b""  # two blocks at a time are enough
        self._block, self._block_start = self._server.answer(request), start
        end = start + len(self._block)
        if goes_on and end < self.size:
            self._following = (end, self._begin_block(end))

    def _begin_block(self, start: int) -> Request[bytes]:
        return self._server.begin(partial(self._fetched, start, min(self.size, start + BLOCK_BYTES)))

    # in the thread of a request

    def _open(self) -> None:
        if self.size == 0:
            return
        store, _ = store_of(self._found.store)
        if not self.size_is_known:
            self._learn(store.info(self._found.key))
        size = {"size": self.size} if is_web(self._found.store) and self.size_is_known else {}  # it would ask again
        self._handle = store.open(self._found.key, "rb", **opening_options(self._found.store), **size)
        told = version_of(getattr(self._handle, "details", None) or {})
        if told and self._found.version and told != self._found.version:
            raise ObjectError(REPLACED)
        if not self.size_is_known:
            self._handle = _FromTheStart(self._reopened)
        self._fetch_ends()

    def _learn(self, info: dict[str, Any]) -> None:
        self.size = info["size"] if isinstance(info.get("size"), int) else _UNKNOWN
        self.modified_s = modified_of(info)

    def _fetch_ends(self) -> None:
        self.head = self._fetched(0, self.size if self.size <= SMALL_BYTES else START_BYTES)
        if len(self.head) == self.size:
            return
        if self.size_is_known and self.size > START_BYTES + END_BYTES and self._at_both_ends(self.head):
            self.tail = self._fetched(self.size - END_BYTES, self.size)
        else:
            self.head += self._fetched(START_BYTES, min(self.size, FIRST_BYTES))

    def _fetched(self, start: int, stop: int) -> bytes:
        with self._one_at_a_time:
            try:
                data = self._read(start, stop)
            except ValueError:  # a server of the web that gives no ranges
                if not is_web(self._found.store):
                    raise
                self._handle = _FromTheStart(self._reopened)
                data = self._read(start, stop)
        if len(data) < stop - start:
            if self.size_is_known:
                raise ObjectError(REPLACED)
            self.size = start + len(data)
        return data

    def _read(self, start: int, stop: int) -> bytes:
        self._handle.seek(start)
        parts: list[bytes] = []
        while start < stop and (part := self._handle.read(stop - start)):
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def _reopened(self) -> Any:
        return store_of(self._found.store)[0].open(self._found.key, "rb", block_size=0)


class _FromTheStart:
    """What can only be read from its beginning on; what is not wanted is passed over."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._opened = opened
        self._stream, self._at = opened(), 0

    def seek(self, start: int) -> None:
        if start < self._at:
            self._stream.close()
            self._stream, self._at = self._opened(), 0
        while self._at < start and self.read(min(1 << 20, start - self._at)):
            pass

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        self._at += len(data)
        return data


class ObjectsAhead:
    """The streams of ``files``, to be taken in their order."""

    def __init__(self, files: Iterable[FoundObject], at_both_ends: Callable[[bytes], bool]) -> None:
        self._left = iter(files)
        self._at_both_ends = at_both_ends
        self._begun: deque[ObjectStream] = deque()
        self._servers: dict[str, Server] = {}

    def next(self) -> ObjectStream:
        """The stream of the next one, opened. Raises ObjectError when it cannot be."""
        self._begun.extend(map(self._begin, islice(self._left, AHEAD - len(self._begun))))
        return self._begun.popleft().opened()

    def _begin(self, file: FoundObject) -> ObjectStream:
        server = self._servers.get(file.store)
        if server is None:
            server = self._servers[file.store] = Server(retries_by_itself=retries_by_itself(file.store))
        return ObjectStream(file, server, self._at_both_ends)
