"""Ranks that wait in a guard of ours (``unhang.together``, ``rank_zero_first``, …): on the store, in no collective.

No recorder sees such a wait. The stack shows it, and under ``unhang run`` the rank's own mark says for whom.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from unhang.evidence.items import Frame
from unhang.facts.model import Activity, GroupFacts, GroupProgress, PendingCall, RankFacts

GUARD_WAIT = "guard-wait"
_GUARDS = {
    "together.py": "unhang.together",
    "rank_zero_first.py": "unhang.rank_zero_first",
    "sameness.py": "unhang.same_on_all_ranks",
    "saving.py": "unhang.save_together",
    "even_epoch.py": "unhang.even_batches",
    "agreed_epoch.py": "unhang.even_batches",
    "even_batches.py": "unhang.even_batches",
}
"""File of the guard, outermost first in what a guard calls of another, and its name."""


def in_guard(activity: Activity | None) -> bool:
    """The thread waits in a guard for other ranks."""
    return activity is not None and activity.what == GUARD_WAIT


def is_guard_call(call: PendingCall | None) -> bool:
    """It is a wait in a guard: on the store, where no limit of a collective applies."""
    return call is not None and call.group == call.operation and call.operation.startswith("unhang")


def add_guard_waits(groups: Mapping[str, GroupFacts], ranks: Mapping[int, RankFacts]) -> dict[str, GroupFacts]:
    """And one group for every guard in which somebody waits: its members wait for those that are not in it.

    Not for ranks that wait in a collective: those wait for the rank in the guard, which is where it should not be yet.
    """
    in_calls = {rank for group in groups.values() for rank in group.pending_calls}
    inside: dict[str, dict[int, Activity]] = defaultdict(dict)
    for rank, facts in sorted(ranks.items()):
        activity = next((a for a in (facts.activity, *facts.threads) if a is not None and in_guard(a)), None)
        if activity is not None and facts.alive and facts.process_state != "T" and rank not in in_calls:
            inside[awaited_guard(facts)][rank] = activity
    others = {rank: known for rank, known in ranks.items() if rank not in in_calls}
    return {**groups, **{name: _group(name, waiting, others) for name, waiting in inside.items()}}


def awaited_guard(facts: RankFacts) -> str:
    """The guard in which a rank waits, as the program calls it: its own mark says more than its stack."""
    marked = facts.process.guard_wait
    if marked is not None and marked.what:
        return f"unhang.{marked.what}"
    waiting = next((a for a in (facts.activity, *facts.threads) if a is not None and in_guard(a)), None)
    return _guard_in(waiting.frames) if waiting is not None else "unhang"


def _guard_in(frames: tuple[Frame, ...]) -> str:
    """The guard the program called: the outermost of ours on the stack."""
    files = [frame.file.replace("\\", "/") for frame in frames if not frame.native]
    named = [_GUARDS.get(file.rpartition("/")[2]) for file in files if "unhang/guards/" in file]
    return next((name for name in reversed(named) if name), "unhang")


def _group(name: str, waiting: Mapping[int, Activity], ranks: Mapping[int, RankFacts]) -> GroupFacts:
    members = tuple(sorted({*waiting, *_awaited(waiting, ranks)}))
    progress = {}
    for rank in members:
        activity = waiting.get(rank)
        if activity is None and (rank not in ranks or ranks[rank].activity is None):
            continue
        call = None
        if activity is not None:
            call = PendingCall(name, 1, None, name, activity.evidence, where=activity.where, stack=activity.frames)
        progress[rank] = GroupProgress(rank, 1 if call else 0, 0, call, "stack")
    group = GroupFacts(name, name, members, members_known=False, is_default=False)
    return group.with_progress(progress)


def _awaited(waiting: Mapping[int, Activity], ranks: Mapping[int, RankFacts]) -> set[int]:
    """Whom the marks name; everybody where one that waits does not know."""
    waits = [ranks[rank].process.guard_wait for rank in waiting]
    if any(wait is None or not wait.ranks for wait in waits):
        return set(ranks)
    return {rank for wait in waits if wait is not None for rank in wait.ranks if rank in ranks}
