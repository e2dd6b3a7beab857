"""Stacks that stand inside a log: faulthandler's at an abort, py-spy's or gdb's appended by a script.

The log is read once; this listens while it passes and keeps the part from the first stack on, within a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unhang.evidence.items import StackDump
from unhang.evidence.stacks import read_stacks
from unhang.findings import Source

_MARKS = (b"most recent call first):", b"\nPython v3.", b"(LWP ")
_BEFORE = 8192
_KEPT_BYTES = 8 << 20


class StackListener:
    """Give ``hear`` every chunk of a log in order, then ask for its ``stacks``."""

    def __init__(self) -> None:
        self._lines_before = 0
        self._previous = b""
        self._kept: list[bytes] = []
        self._room = _KEPT_BYTES

    def hear(self, chunk: bytes) -> None:
        """Listen to the next bytes of the log."""
        if self._kept:
            self._keep(chunk)
            return
        joined = self._previous + chunk
        places = [place for place in (joined.find(mark) for mark in _MARKS) if place >= 0]
        if not places:
            self._pass(joined)
            return
        start = joined.rfind(b"\n", 0, max(0, min(places) - _BEFORE)) + 1
        self._lines_before += joined.count(b"\n", 0, start)
        self._keep(joined[start:])

    def stacks(self, source: str, rank: int | None) -> Iterator[StackDump]:
        """The stacks that were heard, with line numbers of the log."""
        if not self._kept:
            return
        for dump in read_stacks(b"".join(self._kept), source=source, rank=rank):
            if dump.threads:
                yield self._placed(dump)

    def _pass(self, joined: bytes) -> None:
        self._previous = joined[-_BEFORE:]
        self._lines_before += joined.count(b"\n", 0, len(joined) - len(self._previous))

    def _keep(self, chunk: bytes) -> None:
        if self._room > 0:
            self._kept.append(chunk[: self._room])
            self._room -= len(chunk)

    def _placed(self, dump: StackDump) -> StackDump:
        def moved(line: int | None) -> int | None:
            return None if line is None else line + self._lines_before

        threads = tuple(replace(thread, line=moved(thread.line)) for thread in dump.threads)
        return replace(dump, source=Source(dump.source.path, moved(dump.source.line)), threads=threads, unread=())
