"""Read a pickled dump from front to back, one entry at a time."""

from __future__ import annotations

from typing import Any

from unhang.errors import DumpError
from unhang.evidence.flight_recorder.columns import EntryColumns, SharedTables
from unhang.evidence.flight_recorder.header import KNOWN_KEYS, read_header
from unhang.evidence.flight_recorder.parsed import ParsedDump
from unhang.evidence.plain_opcodes import CutShort
from unhang.evidence.safe_unpickle import PlainMachine


def read_whole(data: bytes, shared: SharedTables) -> ParsedDump:
    """Every entry of the pickle ``data``; of a torn one those that are complete.

    Raises :class:`DumpError` when it asks for more than plain containers or is no flight-recorder dump.
    """
    columns = EntryColumns(shared)

    def take(entry: dict[Any, Any], byte: int) -> bool:
        columns.add(entry, byte)
        entry.clear()
        return False

    machine = PlainMachine(data, on_entry=take)
    cut_at = None
    try:
        machine.run(0)
        root = machine.result
    except CutShort:
        root, cut_at = machine.folded(), len(data)
    check_root(root, torn=cut_at is not None)
    for entry in left_over(root):
        columns.add(entry)
    return ParsedDump(read_header(root, shared), columns, whole=cut_at is None, dropped=None, cut_at=cut_at)


def check_root(root: Any, *, torn: bool = False) -> None:
    """Raise :class:`DumpError` when the outermost value cannot be a recorder's."""
    if torn and not root:
        raise DumpError("cut short before its first value")
    if isinstance(root, list):
        if any(not isinstance(entry, dict) for entry in root):
            raise DumpError("a pickle, but no flight-recorder dump: its list holds something else than entries")
        return
    if not isinstance(root, dict) or not (KNOWN_KEYS & root.keys()):
        raise DumpError("a pickle, but no flight-recorder dump: it has neither entries nor groups")


def left_over(root: Any) -> list[dict[Any, Any]]:
    """Entries that were not taken while reading (Python's own pickler writes a lone entry another way)."""
    entries = root.get("entries") if isinstance(root, dict) else root
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, dict) and entry]
