"""How far back a ring of entries is read: the stall is at its end, and unfinished work says where it begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from unhang.evidence.flight_recorder.columns import EntryColumns, Row, SharedTables, check_entry_count
from unhang.evidence.flight_recorder.header import Header, ParsedDump, read_header
from unhang.evidence.items import STATE_COMPLETED, GroupStatus

KEPT_ENTRIES: Final = 64
"""The least number of entries that is read."""
KEPT_GLOO_ENTRIES: Final = 256
"""For Gloo, whose entries never say that they finished."""
_MAX_AT_ONCE: Final = 4096


def read_back(status: Mapping[str, GroupStatus], backend: str, earlier: Callable[[int], list[Row]]) -> list[Row]:
    """The last rows of a ring, oldest first, back to the oldest unfinished position of every group.

    ``earlier(amount)`` gives up to ``amount`` rows before those it gave last, and none when there are no more.
    """
    missing = _UnfinishedGroups(status)
    rows: list[Row] = []
    amount = KEPT_GLOO_ENTRIES if backend == "gloo" else KEPT_ENTRIES
    while chunk := earlier(amount):
        rows = chunk + rows
        missing.seen(chunk)
        if not missing:
            break
        amount = min(2 * amount, _MAX_AT_ONCE)
    return rows


def dump_of_ring(
    header: Header, columns: EntryColumns, count: int, between: Callable[[int, int], list[Row]], *, whole: bool
) -> ParsedDump:
    """The dump whose ring of ``count`` entries gives its rows ``between`` any two places; all of it when ``whole``.

    Without a status nothing tells how far back the stall reaches, so all of it is taken too.
    """
    if whole or not header.status or not count:
        columns.rows = between(0, count)
        return ParsedDump(header, columns, whole=True)
    [oldest] = between(0, 1)
    upper = count

    def earlier(amount: int) -> list[Row]:
        nonlocal upper
        lower = max(1, upper - amount)
        rows, upper = between(lower, upper), lower
        return rows

    rows = read_back(header.status, columns.backend, earlier)
    if upper <= 1:
        columns.rows = [oldest, *rows]
        return ParsedDump(header, columns, whole=True, dropped=0)
    columns.rows = rows
    return ParsedDump(header, columns, whole=False, dropped=entries_before(oldest, rows))


def dump_of_columns(
    columns: EntryColumns, root: Any, shared: SharedTables, *, whole: bool, cut_at: int | None
) -> ParsedDump:
    """The dump whose outermost value is ``root`` and whose ring is in ``columns``, up to where a torn file ends."""
    header = read_header(root, shared)
    if cut_at is not None:
        return ParsedDump(header, columns, whole=False, cut_at=cut_at)
    rows, kept = columns.rows, EntryColumns(shared)
    take_over = kept.taking_over(columns)
    return dump_of_ring(
        header, kept, len(rows), lambda start, stop: list(map(take_over, rows[start:stop])), whole=whole
    )


def dump_of_objects(root: Any, shared: SharedTables, *, whole: bool) -> ParsedDump:
    """The dump whose outermost value is ``root``; all of its ring when ``whole``."""
    columns = EntryColumns(shared)
    entries = recorded_entries(root)
    check_entry_count(len(entries))

    def between(start: int, stop: int) -> list[Row]:
        return [columns.row(entry, place=place) for place, entry in enumerate(entries[start:stop], start)]

    return dump_of_ring(read_header(root, shared), columns, len(entries), between, whole=whole)


def recorded_entries(root: Any) -> list[dict[Any, Any]]:
    """The entries in the outermost value ``root``."""
    entries = root.get("entries") if isinstance(root, dict) else root
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def entries_before(oldest: Row, rows: list[Row]) -> int | None:
    """How many entries stand before those read: the recorder counts them, unless finished ones were left out."""
    if not rows or rows[-1].record_id - rows[0].record_id + 1 != len(rows):
        return None
    return max(0, rows[0].record_id - oldest.record_id)


class _UnfinishedGroups:
    """Groups whose oldest unfinished position has not been seen yet."""

    def __init__(self, status: Mapping[str, GroupStatus]) -> None:
        self.wanted = {
            key: one.last_completed + 1 for key, one in status.items() if one.last_enqueued > one.last_completed
        }

    def __bool__(self) -> bool:
        return bool(self.wanted)

    def seen(self, rows: list[Row]) -> None:
        for row in rows if self.wanted else ():
            key = str(row.pg_id)
            wanted = self.wanted.get(key)
            if wanted is None:
                continue
            # point-to-point is counted apart: there a finished operation says that the oldest open one is later
            if row.state == STATE_COMPLETED if row.is_p2p else row.position <= wanted:
                del self.wanted[key]
