"""The last collective a rank recorded: where it was seen for the last time."""

from __future__ import annotations

from unhang.facts.alignment.entry_slices import select_rows
from unhang.facts.alignment.group_table import pending_from_row
from unhang.facts.model import PendingCall, RankFacts


def last_recorded_call(rank: RankFacts) -> PendingCall | None:
    """The newest entry of its dump, finished or not; None without entries."""
    recording = rank.recording
    if recording is None or not len(recording.entries):
        return None
    entries = recording.entries
    newest = int(entries.record_id.argmax())
    name = entries.group_names[int(entries.group[newest])][0]
    return pending_from_row(rank.rank, name, select_rows(entries, [newest]), recording.source)
