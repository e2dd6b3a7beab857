"""Where pending calls stand: a dump made without frames says what is pending, the rank's stack says where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from unhang.facts.alignment.group_table import revise_progress
from unhang.facts.collective_operations import canonical_operation
from unhang.facts.model import GroupFacts, GroupProgress, RankFacts
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
