"""From the recorder's entry dicts to columns, with tables of signatures, stacks and group names.

Nothing in an entry is trusted: a value of the wrong type or size becomes "not known". Nothing here recurses into
values, so shared or circular containers in a hostile dump cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from unhang.errors import DumpError
from unhang.evidence.items import (
    STATE_COMPLETED,
    STATE_SCHEDULED,
    STATE_STARTED,
    Frame,
    GroupConfig,
    RecorderEntries,
    Signature,
)
from unhang.knowledge import numbers

_STATES: Final = {"scheduled": STATE_SCHEDULED, "started": STATE_STARTED, "completed": STATE_COMPLETED}
_PEER: Final = re.compile(r"^(send|recv)\s+(\d{1,9})(?:->|<-)(\d{1,9})$")
_INT64: Final = 1 << 62
"""Half of what a column holds: sums and differences of two fit as well."""
_MAX_FRAMES: Final = 512
_MAX_TENSORS: Final = 4096
_MAX_WORD: Final = 256  # a long text referred to many times would be copied as often
_MAX_ENTRIES: Final = 1 << 20


class Row(NamedTuple):
    """One entry in numbers, in the order of the columns of :class:`~unhang.evidence.items.RecorderEntries`."""

    record_id: int
    pg_id: int
    group: int
    position: int
    signature: int
    created_ns: int
    started_ns: int
    completed_ns: int
    timeout_ms: int
    stack: int
    byte: int
    is_p2p: int
    state: int
    retired: int


class SharedTables:
    """Equal frames, stacks and signatures of many dumps, kept once. Emptied when it grows beyond a bound."""

    def __init__(self, limit: int = 200_000) -> None:
        self._limit = limit
        self._known: dict[Any, Any] = {}
        self.ranks: dict[str, tuple[int, ...]] = {}
        """Members by the text a dump spells them with; the longest values of a dump by far."""
        self.configs: dict[tuple[str, str, Any], GroupConfig] = {}

    def one(self, value: Any) -> Any:
        """The interned copy of ``value``."""
        if len(self._known) > self._limit:
            self._known.clear()
            self.ranks.clear()
            self.configs.clear()
        return self._known.setdefault(value, value)


class EntryColumns:
    """Collects entries of one dump; ``entries()`` gives them as columns in the order they were added."""

    def __init__(self, shared: SharedTables | None = None) -> None:
        self._shared = shared or SharedTables()
        self.rows: list[Row] = []
        """In order of the ring; whoever reads it backwards fills this itself."""
        self._groups: dict[tuple[str, str], int] = {}
        self._signatures: dict[Signature, int] = {}
        self._stacks: dict[tuple[Frame, ...], int] = {}
        self._stack_by_parts: dict[tuple[int, ...], int] = {}
        self._frames: dict[int, tuple[Frame | None, Any]] = {}
        self._signature_by_call: dict[tuple[Any, ...], int] = {}
        self.backend = ""

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, entry: Mapping[str, Any], byte: int = -1) -> None:
        """Append one entry; ``byte`` is where it starts in its file, -1 when not known.

        Raises :class:`DumpError` for more entries than any ring has.
        """
        check_entry_count(len(self.rows) + 1)
        self.rows.append(self.row(entry, byte, len(self.rows)))

    def row(self, entry: Mapping[str, Any], byte: int = -1, place: int = 0) -> Row:
        """One entry, the one at ``place`` in its ring, as a row of numbers; what is no number goes to the tables."""
        get = entry.get
        name = get("profiling_name")
        operation = name if type(name) is str else ""
        is_p2p = get("is_p2p")
        if type(is_p2p) is not bool:
            is_p2p = operation[:_MAX_WORD].partition(":")[2].startswith(("send", "recv"))
        position = int64_or_default(get("p2p_seq_id" if is_p2p else "collective_seq_id"), None)
        if position is None:
            position = int64_or_default(get("seq_id"), -1)
        created = int64_or_default(get("time_created_ns"), None)
        if created is None:
            created = int64_or_default(get("time_created_us"), 0) * 1000
        return Row(
            int64_or_default(get("record_id"), place),
            int64_or_default(get("pg_id"), -1),
            self.group(get("process_group"), get("pg_id")),
            position,
            self.signature(
                operation, *[get(f"{side}_{what}") for side in ("input", "output") for what in ("sizes", "dtypes")]
            ),
            int64_or_default(created, 0),
            int64_or_default(get("time_discovered_started_ns"), 0),
            int64_or_default(get("time_discovered_completed_ns"), 0),
            int64_or_default(get("timeout_ms"), -1),
            self.stack(get("frames")),
            byte,
            int(is_p2p),
            state_number(get("state")),
            int(get("retired") is True),
        )

    def taking_over(self, other: EntryColumns) -> Callable[[Row], Row]:
        """What turns a row of ``other`` into one of these, which hold only what their own rows refer to."""
        self.backend = other.backend
        groups, signatures, stacks = tuple(other._groups), tuple(other._signatures), (*other._stacks, None)

        def take(row: Row) -> Row:
            stack = stacks[row.stack]
            return row._replace(
                group=self._groups.setdefault(groups[row.group], len(self._groups)),
                signature=self._signatures.setdefault(signatures[row.signature], len(self._signatures)),
                stack=-1 if stack is None else self._stacks.setdefault(stack, len(self._stacks)),
            )

        return take

    def entries(self) -> RecorderEntries:
        """Everything added, as columns."""
        table = np.array(self.rows, dtype=np.int64).reshape(len(self.rows), len(Row._fields)).T.copy()
        columns: dict[str, Any] = dict(zip(Row._fields, table, strict=True))
        columns |= {name: columns[name].astype(np.bool_) for name in ("is_p2p", "retired")}
        columns["state"] = columns["state"].astype(np.int8)
        return RecorderEntries(
            **columns, group_names=tuple(self._groups), signatures=tuple(self._signatures), stacks=tuple(self._stacks)
        )

    def group(self, named: Any, pg_id: Any) -> int:
        """Index of a group in the table of names."""
        key = ("", "")
        if isinstance(named, tuple | list) and len(named) == 2 and all(type(word) is str for word in named):
            key = (named[0], named[1])
        elif type(pg_id) is int and -_INT64 <= pg_id < _INT64:
            key = (str(pg_id), "")  # before torch 2.4 entries name their group by its id alone
        return self._groups.setdefault(self._shared.one(key), len(self._groups))

    def signature(self, name: str, input_sizes: Any, input_dtypes: Any, output_sizes: Any, output_dtypes: Any) -> int:
        """Index of a call (``name`` as the dump spells it) in the table of signatures."""
        name = name[:_MAX_WORD]
        call = (name, _sizes(input_sizes), _sizes(output_sizes), _words(input_dtypes), _words(output_dtypes))
        known = self._signature_by_call.get(call)
        if known is not None:
            return known
        backend, colon, operation = name.partition(":")
        if not colon:
            backend, operation = "", name
        self.backend = self.backend or backend[:64]
        peer = None
        if found := _PEER.match(operation):
            operation, peer = found.group(1), numbers.rank(found.group(3))
        lowered = [tuple(word.lower() for word in words) for words in call[3:]]
        signature = self._shared.one(Signature(operation, peer, call[1], call[2], lowered[0], lowered[1]))
        index = self._signatures.setdefault(signature, len(self._signatures))
        self._signature_by_call[call] = index
        return index

    def stack(self, frames: Any) -> int:
        """Index of a list of frame dicts in the table of stacks; -1 for none."""
        if type(frames) is not list or not frames:
            return -1
        parts = tuple(map(id, frames[:_MAX_FRAMES]))
        known = self._stack_by_parts.get(parts)
        if known is not None:
            return known
        # the dump's own dicts are kept alive, so that an id stays the id of this frame
        stack = tuple([frame for frame in map(self._frame, frames[:_MAX_FRAMES]) if frame is not None])
        index = self._stacks.setdefault(self._shared.one(stack), len(self._stacks)) if stack else -1
        self._stack_by_parts[parts] = index
        return index

    def _frame(self, raw: Any) -> Frame | None:
        known = self._frames.get(id(raw))
        if known is not None:
            return known[0]
        frame = self._shared.one(read_frame(raw)) if isinstance(raw, dict) else None
        self._frames[id(raw)] = (frame, raw)
        return frame


def check_entry_count(entries: int) -> None:
    """Raise :class:`DumpError` for more entries than any ring has."""
    if entries > _MAX_ENTRIES:
        raise DumpError(f"refused: more than {_MAX_ENTRIES:,} entries")


def int64_or_default(value: Any, default: Any) -> Any:
    """``value`` if it is an integer of at most 64 bits, else ``default``."""
    return value if type(value) is int and -_INT64 <= value < _INT64 else default


def state_number(state: Any) -> int:
    """The recorder's word for a state as a number; an unknown word says no more than ``scheduled``."""
    return _STATES.get(state, STATE_SCHEDULED) if type(state) is str else STATE_SCHEDULED


def read_frame(raw: Mapping[str, Any]) -> Frame:
    """One frame dict of the recorder."""
    function, file, line = raw.get("name"), raw.get("filename"), raw.get("line")
    return Frame(
        function=function if type(function) is str else "",
        file=file if type(file) is str else "",
        line=line if type(line) is int and 0 < line < 1 << 31 else None,
    )


def _sizes(raw: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(raw, list | tuple):
        return ()
    return tuple(
        [
            tuple([size for size in sizes[:64] if type(size) is int and abs(size) <= numbers.MAX_INTEGER])
            if isinstance(sizes, list | tuple)
            else ()
            for sizes in raw[:_MAX_TENSORS]
        ]
    )


def _words(raw: Any) -> tuple[str, ...]:
    return tuple([w[:_MAX_WORD] for w in raw[:_MAX_TENSORS] if type(w) is str]) if isinstance(raw, list | tuple) else ()
