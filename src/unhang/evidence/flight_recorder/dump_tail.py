"""Read the end of a pickled dump only: the groups' status stands before the entries, the stall at the end of them.

Torch writes the entries of the ring one after another, each key as a reference to the text stored with the first
entry. So an entry can be found from the end by how it starts, and run from there; a stored value it refers to and
that was skipped is searched where it was stored. The end is read as far back as unfinished work reaches. Whatever
does not look like torch's layout is left to the reader that goes from front to back: None.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

from unhang.errors import DumpError
from unhang.evidence.flight_recorder.columns import EntryColumns, Row, SharedTables
from unhang.evidence.flight_recorder.entry_pattern import EntryPattern
from unhang.evidence.flight_recorder.header import Header, ParsedDump, read_header
from unhang.evidence.flight_recorder.ranged_dump import RangedDump
from unhang.evidence.flight_recorder.ring_window import entries_before, read_back
from unhang.evidence.pickles.plain_machine import CutShort, Memo, PlainMachine
from unhang.evidence.pickles.safe_unpickle import run

_DICT: Final = b"}("
_NEAR: Final = 1 << 14
_TRIES: Final = 24
_NEXT_START: Final = 16
"""The start of the second entry is looked at, too."""


class UnexpectedLayout(Exception):
    """The pickle is not laid out as torch does."""


class MoreNeeded(Exception):
    """What is wanted lies in the hole of a dump of which only the ends were fetched: behind the start, or not."""

    def __init__(self, *, of_start: bool) -> None:
        self.of_start = of_start


def read_tail(dump: bytes | RangedDump, shared: SharedTables) -> ParsedDump | None:
    """The groups of the pickle ``dump`` and its last entries; None when its layout asks for reading it whole.

    Of a :class:`RangedDump` no more is fetched than that takes. Raises what fetching raises.
    """
    try:
        if isinstance(dump, bytes):
            return _TailReader(dump, shared, (len(dump), len(dump))).read()
        return _read_by_ranges(dump, shared)
    except (UnexpectedLayout, DumpError, CutShort):
        return None


def _read_by_ranges(dump: RangedDump, shared: SharedTables) -> ParsedDump:
    while True:
        try:
            return _TailReader(dump.with_hole(), shared, dump.hole).read()
        except MoreNeeded as more:  # noqa: PERF203 - a round fetches, which takes far longer
            dump.fetch_more(of_start=more.of_start)


class _TailReader:
    def __init__(self, data: bytes, shared: SharedTables, hole: tuple[int, int]) -> None:
        self.data = data
        self.shared = shared
        self.hole = hole
        """Where bytes are missing: between the start and the end of what was fetched."""
        self.memo = _SkippedMemo(data, hole)
        self.columns = EntryColumns(shared)
        self.pattern_reader = EntryPattern(data, self.memo, self.columns)
        self.found: list[tuple[dict[Any, Any], int]] = []
        self.machine = PlainMachine(data, memo=self.memo, on_entry=self._take_first)
        self.first_end = 0
        self.upper = len(data)
        """Where the rows begin that were read already."""
        self.pattern = b""
        self.cut = False

    def read(self) -> ParsedDump:
        self._read_first()
        first, first_byte = self.found.pop()
        header = self._header()
        if not header.status:
            raise UnexpectedLayout  # nothing tells how far back the stall reaches
        self.pattern = self._entry_start(first_byte)
        self.memo.skipped_from = self.first_end
        oldest = self.columns.row(first, first_byte)
        self.state = _MachineState(self.machine)
        self.machine.on_entry = self._take
        rows = read_back(header.status, self.columns.backend, self._earlier)
        reached_first = self.upper <= self.first_end
        self.columns.rows = [oldest, *rows] if reached_first else rows
        return ParsedDump(
            header,
            self.columns,
            whole=reached_first and not self.cut,
            dropped=0 if reached_first else entries_before(oldest, rows),
            cut_at=len(self.data) if self.cut else None,
        )

    def _read_first(self) -> None:
        start, end = self.hole
        try:
            self.first_end = run(self.machine, 0)
        except (DumpError, CutShort):
            if start < end:
                raise MoreNeeded(of_start=True) from None
            raise
        if start < end and self.first_end + _NEXT_START > start:
            raise MoreNeeded(of_start=True)
        if self.machine.finished or len(self.machine.marks) != 2:
            raise UnexpectedLayout

    def _take_first(self, entry: dict[Any, Any], byte: int) -> bool:
        self.found.append((entry, byte))
        return True

    def _take(self, entry: dict[Any, Any], byte: int) -> bool:
        self.found.append((entry, byte))
        return False

    def _header(self) -> Header:
        words = self.machine.stack[self.machine.marks[0] : self.machine.marks[1] - 2]
        if len(words) % 2 or not all(type(key) is str for key in words[::2]):
            raise UnexpectedLayout
        return read_header(dict(zip(words[::2], words[1::2], strict=True)), self.shared)

    def _entry_start(self, byte: int) -> bytes:
        """How every entry after the first starts: an open dict and a reference to the first key."""
        data, key = self.data, byte + 2
        if data[byte:key] != _DICT:
            raise UnexpectedLayout
        if data[key] == ord("X"):
            put = key + 5 + int.from_bytes(data[key + 1 : key + 5], "little")
            reference = _reference_to_put(data, put)
        else:
            reference = _reference_itself(data, key)
        pattern = _DICT + reference
        following = data[self.first_end : self.first_end + len(pattern)]
        if following != pattern and following[:1] != b"e":
            raise UnexpectedLayout
        return pattern

    def _earlier(self, amount: int) -> list[Row]:
        """Up to ``amount`` rows before those read last; the first entry of the ring is not among them."""
        starts = self._starts_before(self.upper, amount)
        if not starts:
            self.upper = self.first_end
            return []
        self.memo.skipped_to = starts[-1]
        rows = self._chunk(starts[::-1], None if self.upper == len(self.data) else self.upper)
        self.upper = starts[-1]
        return rows

    def _starts_before(self, upper: int, amount: int) -> list[int]:
        starts: list[int] = []
        start, end = self.hole
        while len(starts) < amount:
            upper = self.data.rfind(self.pattern, self.first_end if start == end else end, upper)
            if upper < 0 and start < end:
                raise MoreNeeded(of_start=False)
            if upper < 0:
                break
            starts.append(upper)
        return starts

    def _chunk(self, starts: list[int], stop: int | None) -> list[Row]:
        """The entries at ``starts``, one after another until ``stop`` or the end of the dump."""
        rows: list[Row] = []
        for start, end in zip(starts, [*starts[1:], stop], strict=True):
            matched = self.pattern_reader.read(start)
            if matched is None or (end is not None and matched[1] != end):
                rows += self._run(start, end)
                continue
            rows.append(matched[0])
            if end is None:
                rows += self._run(matched[1], None)
        return rows

    def _run(self, start: int, stop: int | None) -> list[Row]:
        """The entries from ``start`` to ``stop``, or to the end of the dump, with the machine: one, or none."""
        self.found = []
        self.state.restore(self.machine)
        try:
            end = run(self.machine, start, stop)
        except CutShort:
            if stop is not None:
                raise UnexpectedLayout from None
            self.cut, end = True, len(self.data)
        whole_entries = [byte for _, byte in self.found]
        # each start must be an entry: the same bytes inside a text or a number are caught here
        if stop is not None and (end != stop or whole_entries != [start]):
            raise UnexpectedLayout
        if whole_entries not in ([], [start]):
            raise UnexpectedLayout
        return [self.columns.row(entry, byte) for entry, byte in self.found]


class _MachineState:
    """The machine's state between two entries."""

    def __init__(self, machine: PlainMachine) -> None:
        # the first entry stays off the stack: what was read of it is kept elsewhere
        self.stack = machine.stack[: machine.marks[-1]]
        self.marks = list(machine.marks)
        self.mark_bytes = list(machine.mark_bytes)

    def restore(self, machine: PlainMachine) -> None:
        machine.stack[:] = self.stack
        machine.marks[:] = self.marks
        machine.mark_bytes[:] = self.mark_bytes
        machine.kept = 0
        machine.finished = False


class _SkippedMemo(Memo):
    """Finds values stored in the part that was skipped, by the opcode that stored them."""

    def __init__(self, data: bytes, hole: tuple[int, int]) -> None:
        super().__init__()
        self.data = data
        self.hole = hole
        self.skipped_from: int | None = None
        self.skipped_to = 0
        self._slots: list[int] = []
        self._bytes: list[int] = []
        self._depth = 0

    def __missing__(self, slot: int) -> Any:
        if self.skipped_from is None:
            return super().__missing__(slot)
        self._depth += 1
        if self._depth > 4:
            raise UnexpectedLayout
        value = self._search(slot)
        self._depth -= 1
        self[slot] = value
        return value

    def _search(self, slot: int) -> Any:
        put = b"q" + bytes((slot,)) if slot < 256 else b"r" + slot.to_bytes(4, "little")
        at = bisect_left(self._slots, slot)
        low = self._bytes[at - 1] if at else self.skipped_from or 0  # slots are stored in rising order
        high = self._bytes[at] if at < len(self._bytes) else self.skipped_to
        start, end = self.hole
        there = [(low, high)] if start == end or high <= start or low >= end else [(low, start), (end, high)]
        for first, stop in there:
            value, byte = self._stored_between(first, stop, put, low)
            if value is not None:
                at = bisect_left(self._slots, slot)  # what the value refers to may have been found meanwhile
                self._slots.insert(at, slot)
                self._bytes.insert(at, byte)
                return value
        if len(there) > 1:
            raise MoreNeeded(of_start=True)
        raise UnexpectedLayout

    def _stored_between(self, byte: int, stop: int, put: bytes, low: int) -> tuple[Any, int]:
        for _ in range(_TRIES):
            byte = self.data.find(put, byte, stop)
            if byte < 0:
                break
            value: Any = self._text_ending_at(byte, low)
            if value is None:
                value = self._dict_ending_at(byte)  # it may start before the texts in it that are known
            if value is not None:
                return value, byte
            byte += 1
        return None, byte

    def _text_ending_at(self, end: int, low: int) -> str | None:
        data, start = self.data, end
        for _ in range(_TRIES):
            start = data.rfind(b"X", max(low, end - _NEAR), start)
            if start < 0:
                return None
            if (
                int.from_bytes(data[start + 1 : start + 5], "little") == end - start - 5
                and b"\0" not in data[start + 5 : end]
            ):
                return data[start + 5 : end].decode("utf-8", "replace")
        return None

    def _dict_ending_at(self, end: int) -> dict[Any, Any] | None:
        data, start = self.data, end
        if data[end - 1] != ord("u"):
            return None
        for _ in range(_TRIES):
            start = data.rfind(_DICT, max(self.skipped_from or 0, end - _NEAR), start)
            if start < 0:
                return None
            machine = PlainMachine(data, memo=self)
            try:
                reached = run(machine, start, end)
            except (DumpError, CutShort):
                continue
            if reached == end and not machine.marks and len(machine.stack) == 1 and machine.stack[0]:
                return machine.stack[0]  # type: ignore[no-any-return]
        return None


def _reference_to_put(data: bytes, byte: int) -> bytes:
    if data[byte : byte + 1] == b"q":
        return b"h" + data[byte + 1 : byte + 2]
    if data[byte : byte + 1] == b"r":
        return b"j" + data[byte + 1 : byte + 5]
    raise UnexpectedLayout


def _reference_itself(data: bytes, byte: int) -> bytes:
    size = {b"h": 2, b"j": 5}.get(data[byte : byte + 1])
    if size is None:
        raise UnexpectedLayout
    return data[byte : byte + size]
