"""Read entries laid out exactly as torch 2.5 and later write them, with one match an entry.

An entry of these versions is a fixed row of keys; only the values change, and most of those are references to stored
texts. One regular expression over the opcodes takes an entry apart, and what a run of bytes means (a stack, a
signature) is worked out once a dump. Entries that do not match are left to the machine that runs opcodes one by one.
"""

from __future__ import annotations

import re
from typing import Any, Final

from unhang.evidence.flight_recorder.columns import EntryColumns, Row, state_number
from unhang.evidence.pickles.plain_machine import Memo, PlainMachine
from unhang.evidence.pickles.safe_unpickle import run

_REFERENCE: Final = rb"(?:h.|j.{4})"
_NUMBER: Final = rb"(?:K.|M..|J.{4}|\x8a\x08.{8})"
_TIME: Final = rb"(?:N|" + _NUMBER + rb")"
_FLAG: Final = rb"[\x88\x89]"
_SIZES: Final = rb"\]\((?:\]\(" + _NUMBER + rb"*e)*e"
_WORDS: Final = rb"\]\(" + _REFERENCE + rb"*e"
_PAIR: Final = _REFERENCE + _REFERENCE + rb"\x86"

_FIELDS: Final = (
    ("frames", _WORDS, "?"),
    ("record_id", _NUMBER, ""),
    ("pg_id", _NUMBER, ""),
    ("process_group", _PAIR, ""),
    ("thread_name", _REFERENCE, "?"),
    ("thread_id", _REFERENCE, "?"),
    ("collective_seq_id", _NUMBER, ""),
    ("p2p_seq_id", _NUMBER, ""),
    ("op_id", _NUMBER, ""),
    ("profiling_name", _REFERENCE, ""),
    ("time_created_ns", _NUMBER, ""),
    ("duration_ms", rb"G.{8}", "?"),
    ("input_sizes", _SIZES, ""),
    ("input_dtypes", _WORDS, ""),
    ("output_sizes", _SIZES, ""),
    ("output_dtypes", _WORDS, ""),
    ("state", _REFERENCE, ""),
    ("time_discovered_started_ns", _TIME, ""),
    ("time_discovered_completed_ns", _TIME, ""),
    ("retired", _FLAG, ""),
    ("timeout_ms", _NUMBER, ""),
    ("is_p2p", _FLAG, ""),
)
_ENTRY: Final = re.compile(
    rb"\}\(" + b"".join(rb"(?:(%s)(%s))%s" % (_REFERENCE, value, often.encode()) for _, value, often in _FIELDS) + b"u",
    re.DOTALL,
)
_NAMES: Final = tuple(name for name, _, _ in _FIELDS)
_TRUE: Final = b"\x88"


class EntryPattern:
    """Rows of one dump's entries. ``memo`` resolves references, ``columns`` owns the tables."""

    def __init__(self, data: bytes, memo: Memo, columns: EntryColumns) -> None:
        self._data = data
        self._memo = memo
        self._columns = columns
        self._keys: set[tuple[bytes | None, ...]] = set()
        self._known: dict[Any, int] = {}
        self._shapes: dict[bytes | None, Any] = {}

    def read(self, start: int) -> tuple[Row, int] | None:
        """The row of the entry at ``start`` and the byte after it; None when it does not match."""
        found = _ENTRY.match(self._data, start)
        if found is None:
            return None
        parts = found.groups()
        if parts[::2] not in self._keys and not self._learn_keys(parts[::2]):
            return None
        return self._row(parts[1::2], start), found.end()

    def _learn_keys(self, keys: tuple[bytes | None, ...]) -> bool:
        """Whether these references are the names the places stand for."""
        for key, name in zip(keys, _NAMES, strict=True):
            if key is not None and self._memo[_slot(key)] != name:
                return False
        self._keys.add(keys)
        return True

    def _row(self, values: tuple[bytes | None, ...], byte: int) -> Row:
        (
            frames,
            record_id,
            pg_id,
            group,
            _,
            _,
            collective,
            p2p,
            _,
            *call,
            state,
            started,
            completed,
            retired,
            timeout,
            is_p2p,
        ) = values
        name, created, _, *shapes = call
        known = self._known
        call_key = (name, *shapes)
        signature = known.get(call_key)
        if signature is None:
            signature = known[call_key] = self._signature(name, shapes)
        stack = known.get(frames)
        if stack is None:
            stack = known[frames] = -1 if frames is None else self._columns.stack(self._value(frames))
        group_key = (group, pg_id)
        group_index = known.get(group_key)
        if group_index is None:
            group_index = known[group_key] = self._columns.group(self._value(group), _number(pg_id))
        state_index = known.get((state,))
        if state_index is None:
            state_index = known[(state,)] = state_number(self._value(state))
        return Row(
            _number(record_id),
            _number(pg_id),
            group_index,
            _number(p2p if is_p2p == _TRUE else collective),
            signature,
            _number(created),
            _number(started),
            _number(completed),
            _number(timeout),
            stack,
            byte,
            is_p2p == _TRUE,
            state_index,
            retired == _TRUE,
        )

    def _signature(self, name: bytes | None, shapes: list[bytes | None]) -> int:
        operation = self._value(name)
        return self._columns.signature(
            operation if type(operation) is str else "", *[self._shape(shape) for shape in shapes]
        )

    def _shape(self, part: bytes | None) -> Any:
        # few sizes and types make up many signatures
        value = self._shapes.get(part)
        if value is None:
            value = self._shapes[part] = self._value(part)
        return value

    def _value(self, part: bytes | None) -> Any:
        """What a run of opcodes builds."""
        assert part is not None
        machine = PlainMachine(part, memo=self._memo)
        run(machine, 0, len(part))
        return machine.result


def _slot(reference: bytes) -> int:
    return int.from_bytes(reference[1:], "little")


def _number(part: bytes | None) -> int:
    """A number as torch's pickler writes it; 0 for an unknown time."""
    assert part is not None
    if part[0] == 0x8A:
        return int.from_bytes(part[2:], "little", signed=True)
    return int.from_bytes(part[1:], "little", signed=part[0] == 0x4A)
