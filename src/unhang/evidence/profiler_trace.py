"""Open a trace as a stream of plain bytes, and tell one from other files by its first bytes."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from unhang.evidence.bounded_streams import STREAM_ERRORS

HEAD_BYTES = 1 << 16
_PIECE = 1 << 10
"""What a packed file that was cut short still gives is had in pieces only."""
_GZIP = b"\x1f\x8b"
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE = re.compile(rb'\s*\[\s*\{[^{}]{0,400}"ph"\s*:')
_OWN = re.compile(rb'\s*\{\s*"schemaVersion"\s*:\s*\d|"deviceProperties"\s*:|"traceEvents"\s*:')


def looks_like_trace(head: bytes) -> bool:
    """Whether ``head`` (plain bytes) begins a trace in Chrome's form."""
    return bool(_OWN.match(head) or _EVENTS.search(head) or _BARE.match(head))


def events_offset(head: bytes) -> int | None:
    """Where in ``head`` the list of events begins, behind its bracket; None where it does not."""
    found = _EVENTS.search(head)
    if found is not None:
        return found.end()
    return head.index(b"[") + 1 if _BARE.match(head) else None


@contextmanager
def open_trace(path: Path) -> Iterator[BinaryIO]:
    """The unpacked bytes of ``path``. Raises OSError for what is no file or may not be read."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb", buffering=0) as raw:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(None, "it is not a file")
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        if not packed:
            yield cast("BinaryIO", raw)
            return
        with gzip.GzipFile(fileobj=io.BufferedReader(raw, 1 << 20)) as unpacked:
            yield cast("BinaryIO", unpacked)


def read_trace_head(path: Path) -> bytes:
    """The first bytes of a file, unpacked, as far as it goes; empty where nothing can be read."""
    head = b""
    with suppress(*STREAM_ERRORS), open_trace(path) as stream:
        while len(head) < HEAD_BYTES and (more := stream.read(min(_PIECE, HEAD_BYTES - len(head)))):
            head += more
    return head
