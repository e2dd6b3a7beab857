"""Read one dump: find out how it is written, read it, say what could not be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

from unhang.errors import DumpError, ObjectError
from unhang.evidence.file_names import rank_from_name
from unhang.evidence.flight_recorder.columns import SharedTables
from unhang.evidence.flight_recorder.dump_detection import TORCH_START
from unhang.evidence.flight_recorder.dump_tail import read_tail
from unhang.evidence.flight_recorder.header import ParsedDump
from unhang.evidence.flight_recorder.json_text import looks_like_json, read_json
from unhang.evidence.flight_recorder.nonstandard_pickle import read_nonstandard_pickle
from unhang.evidence.flight_recorder.ranged_dump import RangedDump, all_of
from unhang.evidence.found_files import FILE_REPLACED, FileIdentity, FileReplacedError, open_regular_file
from unhang.evidence.items import STATE_COMPLETED, RecorderDump
from unhang.findings import Source, Unread

MAX_BYTES: Final = 128 << 20
"""Larger dumps are refused: torch's own default is some hundred KB, twenty thousand entries are some MB."""


class FallbackReader(Protocol):
    """What reads a dump whose layout is not torch's."""

    def __call__(self, data: bytes, shared: SharedTables, *, whole: bool) -> ParsedDump:
        """The dump ``data``. Raises :class:`DumpError` when it is none."""


def read_fallback(data: bytes, shared: SharedTables, *, whole: bool) -> ParsedDump:
    """JSON, and pickles with our own machine: safe in any process, and slow for long pickles."""
    read = read_json if looks_like_json(data) else read_nonstandard_pickle
    return read(data, shared, whole=whole)


def read_recorder_dump(
    data: str | Path | bytes | RangedDump,
    *,
    source: str | None = None,
    rank: int | None = None,
    whole: bool = False,
    shared: SharedTables | None = None,
    others: FallbackReader = read_fallback,
    identity: FileIdentity | None = None,
    written_s: float | None = None,
) -> RecorderDump | Unread:
    """The flight-recorder dump in the file ``data`` (or in these bytes).

    ``source`` names it in the report (default: the path). ``rank`` is taken from the name when not given. Without
    ``whole`` only the end of the ring is read, at least 64 entries (256 for Gloo) and back to the oldest unfinished
    position of every group; ``RecorderDump.whole`` tells. ``shared`` keeps equal values of many dumps once. ``others``
    reads what torch did not lay out itself. ``identity``: of the file that was found under this path; another one is
    not read. ``written_s``: when it was written, where ``data`` is no path. Never raises for bad input and never runs
    anything in the file.
    """
    name = source if source is not None else (os.fspath(data) if isinstance(data, str | Path) else "")
    if rank is None:
        rank = rank_from_name(name)
    place = Source(name)
    try:
        if isinstance(data, str | Path):
            data, written_s = _content(data, identity)
        parsed = _parse(data, shared or SharedTables(), whole=whole, others=others)
    except (DumpError, ObjectError, OSError) as error:
        return Unread(place, _reason(error), rank)
    return _recorder_dump(parsed, place, rank, written_s)


def _content(path: str | Path, identity: FileIdentity | None) -> tuple[bytes, float]:
    with open_regular_file(path, identity) as file:
        told = os.fstat(file.fileno())
        if told.st_size > MAX_BYTES:
            raise DumpError(f"larger than {MAX_BYTES >> 20} MiB: no recorder writes that")
        return file.read(), told.st_mtime


def _parse(data: bytes | RangedDump, shared: SharedTables, *, whole: bool, others: FallbackReader) -> ParsedDump:
    if not len(data):
        raise DumpError("empty file: the process ended before it wrote its dump")
    if len(data) > MAX_BYTES:
        raise DumpError(f"larger than {MAX_BYTES >> 20} MiB: no recorder writes that")
    if isinstance(data, RangedDump) and not whole:  # it starts as torch writes it
        tail = read_tail(data, shared)
        return others(data.whole(), shared, whole=whole) if tail is None else tail
    data = all_of(data)
    if not looks_like_json(data) and data[:1] not in (b"\x80", b"}", b"]", b"("):
        raise DumpError("neither a pickle nor JSON")
    tail = read_tail(data, shared) if data.startswith(TORCH_START) and not whole else None
    return others(data, shared, whole=whole) if tail is None else tail


def _reason(error: DumpError | ObjectError | OSError) -> str:
    if isinstance(error, FileReplacedError):
        return FILE_REPLACED
    if isinstance(error, DumpError | ObjectError):
        return str(error)
    return f"cannot be opened: {error.strerror or type(error).__name__}"


def _recorder_dump(parsed: ParsedDump, place: Source, rank: int | None, written_s: float | None) -> RecorderDump:
    unread: tuple[Unread, ...] = ()
    if parsed.cut_at is not None:
        unread = (Unread(Source(place.path, byte=parsed.cut_at), f"dump cut short at byte {parsed.cut_at}", rank),)
    entries = parsed.columns.entries()
    return RecorderDump(
        source=place,
        rank=rank,
        backend=parsed.columns.backend,
        format_version=parsed.header.format_version,
        library_version=parsed.header.library_version,
        groups=parsed.header.groups,
        status=parsed.header.status,
        entries=entries,
        whole=parsed.whole,
        dropped=parsed.dropped,
        only_active=_only_active(
            parsed, entries.record_id[:1].tolist(), bool((entries.state == STATE_COMPLETED).any())
        ),
        written_s=written_s,
        unread=unread,
    )


def _only_active(parsed: ParsedDump, first_id: list[int], any_completed: bool) -> bool:
    """No finished entry is left although the recorder had counted some: the dump was made without them."""
    if any_completed or not first_id or parsed.columns.backend in ("gloo", ""):
        return False
    return first_id[0] > 0 and parsed.dropped in (None, 0)
