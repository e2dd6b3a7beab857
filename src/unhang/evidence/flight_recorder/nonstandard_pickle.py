"""Read a pickled dump whose layout is not torch's."""

from __future__ import annotations

from typing import Any

from unhang.errors import DumpError
from unhang.evidence.flight_recorder.columns import EntryColumns, SharedTables
from unhang.evidence.flight_recorder.header import KNOWN_KEYS, ParsedDump
from unhang.evidence.flight_recorder.ring_window import dump_of_columns, recorded_entries
from unhang.evidence.pickles.safe_unpickle import read_plain


def read_nonstandard_pickle(data: bytes, shared: SharedTables, *, whole: bool) -> ParsedDump:
    """The pickle ``data``, its entries taken one by one with our own machine; of a torn one those that are complete.

    Raises :class:`DumpError` when it asks for more than plain containers or is no flight-recorder dump.
    """
    columns = EntryColumns(shared)

    def take(entry: dict[Any, Any], byte: int) -> bool:
        columns.add(entry, byte)
        entry.clear()
        return False

    found = read_plain(data, take)
    check_root(found.value, torn=found.cut_at is not None)
    for entry in filter(None, recorded_entries(found.value)):  # those taken were emptied
        columns.add(entry)
    return dump_of_columns(columns, found.value, shared, whole=whole, cut_at=found.cut_at)


def check_root(root: Any, *, torn: bool = False) -> None:
    """Raise :class:`DumpError` when the outermost value cannot be a recorder's."""
    if torn and not root:
        raise DumpError("cut short before its first value")
    if isinstance(root, list):
        if any(not isinstance(entry, dict) for entry in root):
            raise DumpError("a pickle, but not a flight-recorder dump: its list contains something other than entries")
        return
    if not isinstance(root, dict) or not (KNOWN_KEYS & root.keys()):
        raise DumpError("a pickle, but not a flight-recorder dump: it has neither entries nor groups")
