"""Calls that Gloo counts as finished because they failed: a rank that timed out in a call, or lost its partner in it,
never finished it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from unhang.evidence.items import PythonTraceback, RecorderEntries
from unhang.facts.alignment.entry_slices import select_rows
from unhang.facts.alignment.group_table import pending_from_row, revise_progress
from unhang.facts.collective_operations import canonical_operation
from unhang.facts.endings.traceback_echoes import is_echo
from unhang.facts.model import GroupFacts, GroupProgress, RankFacts
from unhang.facts.stacks.user_frames import first_user_frame


def reopen_failed_calls(groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts]) -> dict[str, GroupFacts]:
    """The last recorded call of a rank is its pending one where its timeout or lost partner was raised at that line."""
    return revise_progress(groups, lambda group, progress: _reopened(group, progress, ranks.get(progress.rank)))


def _reopened(group: GroupFacts, progress: GroupProgress, known: RankFacts | None) -> GroupProgress:
    entries = group.entries.get(progress.rank)
    if known is None or known.recording is None or known.recording.backend != "gloo" or entries is None:
        return progress
    if progress.pending is not None or not any(_raised_in(t, entries) for t in known.tracebacks):
        return progress
    last = select_rows(entries, [len(entries) - 1])
    return replace(
        progress,
        pending=pending_from_row(progress.rank, group.name, last, known.recording.source),
        completed=min(progress.completed, int(entries.position[-1]) - 1),
    )


def _raised_in(traceback: PythonTraceback, entries: RecorderEntries) -> bool:
    if not len(entries) or not is_echo(traceback):
        return False
    if int(entries.stack[-1]) < 0:
        return _names_the_call(traceback, entries)
    raised = first_user_frame(traceback.frames)
    called = first_user_frame(entries.stacks[int(entries.stack[-1])])
    return raised is not None and called is not None and (raised.file, raised.line) == (called.file, called.line)


def _names_the_call(traceback: PythonTraceback, entries: RecorderEntries) -> bool:
    """A dump without frames: the failed call of torch.distributed is of the operation that was recorded last."""
    last = canonical_operation(entries.signatures[int(entries.signature[-1])].operation)
    return any(
        "torch/distributed/" in frame.file and canonical_operation(frame.function) == last for frame in traceback.frames
    )
