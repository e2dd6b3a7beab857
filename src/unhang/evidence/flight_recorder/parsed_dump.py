"""What each format's reader hands to ``reading``: a dump without its source, rank and file time."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.evidence.flight_recorder.columns import EntryColumns
from unhang.evidence.flight_recorder.header import Header


@dataclass(slots=True)
class ParsedDump:
    """The content of a dump. ``cut_at`` is the byte where a torn file ends; ``dropped`` counts entries skipped."""

    header: Header
    columns: EntryColumns
    whole: bool
    dropped: int | None = None
    cut_at: int | None = None
    note: str = ""
    """What could not be used although the file is not torn; empty when nothing."""
