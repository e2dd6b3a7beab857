"""Stacks that stand inside a log: faulthandler's at an abort, py-spy's or gdb's appended by a script.

The reader of the log finds the marks of stacks with its own literals; the part from the first one on is kept, within a
limit, and read when the log has been.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from unhang.evidence.items import StackDump
from unhang.evidence.logs.lines.prefixes import PrefixReader, Speaker
from unhang.evidence.logs.lines.speakers import SpeakerRanks
from unhang.evidence.stacks import read_stacks
from unhang.findings import Source

STACK_MARKS = (b"most recent call first):", b"Python v3.", b"(LWP ", b'): "MainThread"')
"""What stands in a line where a stack begins."""
_LOOK_BACK_BYTES = 8192
_KEPT_BYTES = 8 << 20


class LogStackReader:
    """Give ``hear`` every block of a log in order, then ask for its ``stacks``."""

    def __init__(self) -> None:
        self._lines_before = 0
        self._previous = b""
        self._kept: list[bytes] = []
        self._room = _KEPT_BYTES
        self.first_lines: tuple[int, ...] = ()
        """Of a paste that was repaired: which of its lines each line began in; else empty."""
        self._prefixes = PrefixReader("")
        self._voices = SpeakerRanks(None)

    def learn_speakers(self, prefixes: PrefixReader, voices: SpeakerRanks) -> None:
        """Say how lines of this log are labelled, and whose label is which rank's."""
        self._prefixes, self._voices = prefixes, voices

    def hear_all(self, data: bytes) -> None:
        """Take ``data`` as stacks from its first line on, whatever stands in it; nothing is heard after it."""
        self._keep(data)
        self._room = 0

    def hear(self, block: bytes, first_line: int, marks: Sequence[int]) -> None:
        """Listen to whole lines: the first has the number ``first_line``, ``marks`` stand at these bytes."""
        if self._kept:
            self._keep(block)
            return
        start = next((at for at in marks if _begins_stack(block, at)), None)
        if start is None:
            self._previous = block[-_LOOK_BACK_BYTES:]
            return
        joined = self._previous + block
        begin = joined.rfind(b"\n", 0, max(0, len(self._previous) + start - _LOOK_BACK_BYTES)) + 1
        self._lines_before = first_line - 1 - self._previous.count(b"\n") + joined.count(b"\n", 0, begin)
        self._keep(joined[begin:])

    def stacks(self, source: str, rank: int | None) -> Iterator[StackDump]:
        """The stacks that were heard, with line numbers of the log, each with the rank of whoever printed it."""
        found = list(self._read(source, rank))
        for dump in found:
            self._voices.places.add(dump.command.rpartition("::")[2])
        for dump in found:
            named = dump.rank if dump.rank is not None else self._voices.rank_of_title(dump.pid, dump.command)
            yield replace(dump, rank=named)

    def _read(self, source: str, rank: int | None) -> Iterator[StackDump]:
        for speaker, lines in self._by_speaker().items() if self._kept else ():
            who = rank if rank is not None else self._voices.rank_of(speaker, {})
            text = "\n".join([text for _, text in lines]).encode()
            if not any(mark in text for mark in STACK_MARKS):
                continue
            for dump in read_stacks(text, source=source, rank=who):
                if dump.threads:
                    yield self._placed(dump, [number for number, _ in lines])

    def _by_speaker(self) -> dict[Speaker, list[tuple[int, str]]]:
        """What each said, without its prefixes: ranks that print at once stay whole."""
        heard = b"".join(self._kept).decode("utf-8", "replace")
        said: dict[Speaker, list[tuple[int, str]]] = {}
        for number, line in enumerate(heard.split("\n"), 1):
            spoken = self._prefixes.read(line)
            text = " ".join(spoken.text.splitlines())  # other breaks inside it would move the lines behind
            said.setdefault(spoken.speaker, []).append((number, text))
        return said

    def _keep(self, block: bytes) -> None:
        if self._room > 0:
            self._kept.append(block[: self._room])
            self._room -= len(block)

    def _placed(self, dump: StackDump, numbers: Sequence[int]) -> StackDump:
        def moved(line: int | None) -> int | None:
            if line is None:
                return None
            line = numbers[line - 1] + self._lines_before
            return self.first_lines[line - 1] if 0 < line <= len(self.first_lines) else line

        threads = tuple(replace(thread, line=moved(thread.line)) for thread in dump.threads)
        return replace(dump, source=Source(dump.source.path, moved(dump.source.line)), threads=threads, unread=())


def _begins_stack(block: bytes, at: int) -> bool:
    """Whether the mark at ``at`` is a stack's: py-spy's stands at the start of a line, C++ frames are none."""
    start = block.rfind(b"\n", 0, at) + 1
    if block.startswith(b"Python v3.", at):
        return at == start
    return block.find(b"Exception raised from ", start, at) < 0
