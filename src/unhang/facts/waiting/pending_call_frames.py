"""Where calls stand whose dump has no frames, by the ranks' stacks; and the last call that a rank recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from unhang.facts.alignment.group_table import recorded_call, revise_progress
from unhang.facts.collective_operations import canonical_operation
from unhang.facts.model import GroupFacts, GroupProgress, PendingCall, RankFacts
from unhang.facts.waiting.progress_from_stacks import waiting_activity


def add_call_frames(groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts]) -> dict[str, GroupFacts]:
    """Give pending calls without frames the line their rank waits at, where it waits in that very operation."""
    return revise_progress(groups, lambda _, progress: _with_frames(progress, ranks.get(progress.rank)))


def _with_frames(progress: GroupProgress, facts: RankFacts | None) -> GroupProgress:
    call = progress.pending
    if call is None or call.where is not None or call.stack or facts is None:
        return progress
    activity = waiting_activity(facts)
    if activity is None or activity.where is None:
        return progress
    unnamed = activity.operation is None and facts.alive
    if unnamed or canonical_operation(activity.operation or "") == canonical_operation(call.operation):
        return replace(progress, pending=replace(call, where=activity.where, stack=activity.frames))
    return progress


def last_recorded_call(rank: RankFacts) -> PendingCall | None:
    """The newest entry of its dump, finished or not; None without entries."""
    recording = rank.recording
    if recording is None or not len(recording.entries):
        return None
    entries = recording.entries
    newest = int(entries.record_id.argmax())
    name = entries.group_names[int(entries.group[newest])][0]
    return recorded_call(rank.rank, name, entries, newest, recording.source)
