"""Read one log from front to back: recognised lines, tracebacks, exits, progress, last words of every rank.

A block of lines first goes through the literal filter. Small logs are then read line by line; of large ones only the
beginning, the end, and the surroundings of recognised lines are, samples in between (for progress), and in front of a
kind of trouble that was not heard of before the last words of everybody.
"""

from __future__ import annotations

import enum
import io
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import BinaryIO

from unhang.evidence.items import LogReading
from unhang.evidence.logs.blocks import Blocks, decoded
from unhang.evidence.logs.content.stacks_in_logs import STACK_MARKS, LogStackReader
from unhang.evidence.logs.content.unhang_verdicts import without_own_verdicts
from unhang.evidence.logs.events import PLAIN_STATEMENTS
from unhang.evidence.logs.line_reader import LineReader
from unhang.evidence.logs.lines.progress import find_step
from unhang.evidence.logs.lines.timestamps import TimestampReader
from unhang.evidence.logs.pasted.json_envelopes import unwrap_json_lines
from unhang.evidence.logs.pasted.pastes import PASTE_BYTES, restore_paste, with_paste_line_numbers
from unhang.evidence.logs.scan.last_lines import last_lines_of_speakers
from unhang.evidence.logs.scan.literal_positions import LiteralFinder, Literals
from unhang.evidence.logs.scan.regions_to_read import (
    AFTER_TRACEBACK,
    Region,
    add_lines,
    count_newlines,
    first_in_each_line,
    regions_of,
)
from unhang.evidence.stacks import looks_like_stack
from unhang.knowledge.messages import MessageRow, load_messages

FIRST_BLOCKS, LAST_BLOCKS = 1, 2
"""So many blocks at either end are read line by line."""
_TAIL_BYTES, _LATER_TAIL_BYTES, _EARLY_BLOCKS, _DENSE_BLOCKS = 1 << 14, 1 << 11, 64, 256
"""So much at the end of blocks in between is read line by line: less in logs that go on for long, and of those that go
on for longer only every second, fourth ... block's."""
_LOOK_BACK, _TROUBLES = 6, 24
"""So many blocks in front of trouble give the last words of everybody, the first so many times."""


def read_log(
    stream: BinaryIO,
    *,
    source: str,
    rank: int | None = None,
    attempt: int = 0,
    host: str | None = None,
    modified_s: float | None = None,
    listener: LogStackReader | None = None,
) -> LogReading:
    """Read a log of any size. ``rank``, ``attempt`` and ``host`` are what the file's name tells, if anything.

    ``modified_s`` dates lines without a year; ``listener`` hears of stacks that stand in the log. Never raises for bad
    input: what could not be read is in ``unread``.
    """
    return _LogReader(LineReader(source, rank, attempt, host, modified_s), listener).read(stream)


def looks_like_log(head: bytes) -> bool:
    """Whether the first bytes of a file read as lines of a program: known messages, prefixes, times or plain words."""
    data = next(iter(Blocks(io.BytesIO(head[:65_536]))), None)
    if data is None:
        return False
    text = decoded(data)
    if sum(1 for character in text if character < " " and character not in "\t\n\r\x1b\x07\x08") > len(text) // 50:
        return False
    if any(tag is not STACK for _, tag in LiteralFinder(_known_literals()).places(data)):
        return True
    lines = [line for line in text.splitlines() if line.strip()][:200]
    clock = TimestampReader(year=2000)
    spoken = [line for line in lines if clock.time_of(line) is not None or find_step(line) is not None]
    return bool(lines) and len(spoken) * 5 >= len(lines)


_DENSE_BYTES = 1024
"""Where literals stand closer than this, many may stand in one line."""
_FAMILIAR_BYTES = 4096
"""So far on a traceback of a kind of which enough were kept is looked for its end."""


@dataclass(slots=True)
class _ScannedBlock:
    data: bytes
    places: list[tuple[int, MessageRow | None]]
    stack_marks: list[int]
    last_words: list[tuple[int, int]] = field(default_factory=list)
    """Lines to be read because they are the last words of somebody."""


def _mark_last_lines(blocks: Sequence[_ScannedBlock]) -> None:
    for scanned, lines in zip(blocks, last_lines_of_speakers([scanned.data for scanned in blocks]), strict=True):
        scanned.last_words = sorted({*scanned.last_words, *lines})


def _end_of(data: bytes, at: int, words: tuple[bytes, bytes]) -> int:
    """Where the traceback at ``at`` ends in these words, one after the other; -1 when it does not."""
    stop = data.find(b"Traceback (most recent", at + 10, at + _FAMILIAR_BYTES)
    stop = stop if stop > 0 else at + _FAMILIAR_BYTES
    first = data.find(words[0], at, stop)
    last = data.find(words[1], first, stop) if first > 0 else -1
    return last + len(words[1]) if last > 0 else -1


class _Stack(enum.Enum):
    MARK = enum.auto()


STACK = _Stack.MARK
"""The tag of literals that mark a stack inside a log."""


@cache
def _known_literals() -> Literals[MessageRow | _Stack | None]:
    """Finds literals with the row they belong to; those without a row start something that goes over many lines."""
    starts = (b"Traceback (most recent call last)", b"Exception in thread ", b"Root Cause (first observed failure)")
    rows = ((anchor.encode("ascii"), row) for row in load_messages() for anchor in row.anchors)
    return Literals((*rows, *((start, None) for start in starts), *((mark, STACK) for mark in STACK_MARKS)))


class _LogReader:
    def __init__(self, lines: LineReader, listener: LogStackReader | None) -> None:
        self.lines = lines
        self.listener = listener or LogStackReader()
        self.finder = LiteralFinder(_known_literals())
        self._blocks = 0
        self._line = 1
        self._known_trouble: set[str] = set()

    def read(self, stream: BinaryIO) -> LogReading:
        reading = self._read(stream)
        self.listener.learn_speakers(self.lines.prefixes, self.lines.voices)
        return reading

    def _read(self, stream: BinaryIO) -> LogReading:
        blocks = Blocks(stream)
        parts = map(without_own_verdicts, unwrap_json_lines(iter(blocks)))
        head = b""
        for part in parts:
            head += part
            if len(head) > PASTE_BYTES:
                break
        paste = restore_paste(head)
        if paste is not None:
            if looks_like_stack(paste.data):
                self.listener.hear_all(paste.data)
            self.listener.first_lines = paste.first_lines
            self._try_parts(iter((paste.data,)), b"")
            return with_paste_line_numbers(self.lines.reading(blocks, len(paste.first_lines)), paste)
        self._try_parts(parts, head)
        return self.lines.reading(blocks, self._line - blocks.ended)

    def _try_parts(self, parts: Iterator[bytes], head: bytes) -> None:
        try:
            self._read_parts(parts, head)
        except Exception as error:  # noqa: BLE001 - what was read before stays read
            self.lines.failed(error, self._line)

    def _read_parts(self, parts: Iterator[bytes], head: bytes) -> None:
        waiting: deque[_ScannedBlock] = deque()
        for count, data in enumerate(chain((head,) if head else (), parts)):
            if count == 0:
                self.lines.look_ahead(data)
            if count < FIRST_BLOCKS:
                self._all_of(self._scan(data))
                continue
            waiting.append(self._scan(data))
            if self._is_news(waiting[-1]):
                _mark_last_lines(waiting)
            if len(waiting) > _LOOK_BACK:
                self._parts_of(waiting.popleft())
        if len(waiting) > LAST_BLOCKS:
            _mark_last_lines(waiting)
        while len(waiting) > LAST_BLOCKS:
            self._parts_of(waiting.popleft())
        for scanned in waiting:
            self._all_of(scanned)
        self.lines.tracebacks.gap()

    def _scan(self, data: bytes) -> _ScannedBlock:
        scanned = _ScannedBlock(data, [], [])
        places = self.finder.places(data)
        if len(places) > len(data) // _DENSE_BYTES:
            places = first_in_each_line(data, places)
        for at, tag in places:
            if tag is STACK:
                scanned.stack_marks.append(at)
            else:
                scanned.places.append((at, tag))
        return scanned

    def _is_news(self, scanned: _ScannedBlock) -> bool:
        """Whether a kind of trouble stands in this block that was not heard of before."""
        rows = {row.id: row for _, row in scanned.places if row is not None}
        kinds = {row.id for row in rows.values() if not (row.benign or row.fallback or row.says in PLAIN_STATEMENTS)}
        news = kinds - self._known_trouble
        self._known_trouble |= kinds
        return bool(news) and len(self._known_trouble) <= _TROUBLES

    def _without_floods(self, scanned: _ScannedBlock, tail_bytes: int) -> None:
        """Of kinds of which thousands were seen, only the first of a block stays."""
        seen: set[str] = set()
        kept: list[tuple[int, MessageRow | None]] = []
        familiar = self.lines.tracebacks.familiar
        stop = len(scanned.data) - tail_bytes
        passed = 0
        for at, row in scanned.places:
            if row is None and familiar and at < stop:
                end = max(_end_of(scanned.data, at, words) for words in familiar)
                if end > 0:
                    passed = end
                    self.lines.tracebacks.dropped += 1
                    continue
            if row is not None:
                if at < passed and row.fallback:
                    self.lines.events.leave_out(row)
                    continue
                if row.id in seen and self.lines.events.enough(row):
                    self.finder.quiet(row)
                    self.lines.events.leave_out(row)
                    continue
                seen.add(row.id)
            kept.append((at, row))
        scanned.places = kept

    def _all_of(self, scanned: _ScannedBlock) -> None:
        end = len(scanned.data)
        self.listener.hear(scanned.data, self._line, scanned.stack_marks)
        self._without_floods(scanned, end)
        self._read_regions(scanned, [Region(0, end, end)])

    def _parts_of(self, scanned: _ScannedBlock) -> None:
        self._blocks += 1
        self.listener.hear(scanned.data, self._line, scanned.stack_marks)
        tail_bytes = _TAIL_BYTES if self._blocks < _EARLY_BLOCKS else _LATER_TAIL_BYTES
        if self._blocks % (1 << max(0, (self._blocks // _DENSE_BLOCKS).bit_length())):
            tail_bytes = 0
        self._without_floods(scanned, tail_bytes)
        regions = regions_of(scanned.data, scanned.places, tail_bytes)
        if scanned.last_words:
            regions = add_lines(regions, scanned.last_words)
        self._read_regions(scanned, regions)

    def _read_regions(self, scanned: _ScannedBlock, regions: Iterable[Region]) -> None:
        data, places = scanned.data, scanned.places
        line, at, next_place, more = self._line, 0, 0, 0
        for region in regions:
            if region.start > at:
                self.lines.tracebacks.gap()
                line += count_newlines(data, at, region.start)
                at = region.start
            more = 0
            while at < region.stop or (at < region.until and (more := self._lines_more(more)) > 0):
                end = data.find(b"\n", at)
                if end < 0:
                    end = len(data)
                while next_place < len(places) and places[next_place][0] < at:
                    next_place += 1
                rows: list[MessageRow] = []
                while next_place < len(places) and places[next_place][0] < end:
                    row = places[next_place][1]
                    if row is not None and row not in rows:
                        rows.append(row)
                    next_place += 1
                if end > at:
                    self.lines.take(data[at:end], line, rows)
                at = end + 1
                line += 1
        self._line = line + (count_newlines(data, at, len(data)) if at < len(data) else 0) - (at > len(data))

    def _lines_more(self, left: int) -> int:
        """How many lines still belong to a traceback: some after its end."""
        return AFTER_TRACEBACK + 1 if self.lines.tracebacks.open else left - 1
