"""Who is late, what everybody is in, and what groups are called: shared by the parts of the page."""

from __future__ import annotations

from unhang.facts.model import Facts, GroupFacts, PendingCall, RankState
from unhang.findings import Severity, Verdict


def late_ranks(verdict: Verdict, facts: Facts) -> frozenset[int]:
    """The ranks to point at: those of the verdict when it singles some out, else those others wait for."""
    first = verdict.findings[0] if verdict.findings else None
    if first is not None and first.ranks and first.severity is not Severity.NOTE:
        everybody = verdict.world_size or len(verdict.ranks_seen)
        if len(first.ranks) * 2 <= everybody:
            return frozenset(first.ranks)
    named = {rank for rank, known in facts.ranks.items() if known.state is RankState.LAGGARD}
    return frozenset(named | set(facts.graph.roots))


def pending_calls(facts: Facts) -> dict[int, PendingCall]:
    """What each rank is in: its unfinished call in the group of the stall, else in the first group by name."""
    leading = [stall.group for stall in facts.stalls]
    names = [name for name in dict.fromkeys([*leading, *sorted(facts.groups)]) if name in facts.groups]
    found: dict[int, PendingCall] = {}
    for name in names:
        for rank, progress in facts.groups[name].progress.items():
            if progress.pending is not None:
                found.setdefault(rank, progress.pending)
    return found


def group_label(group: GroupFacts) -> str:
    """Its description, or its name where PyTorch was given none (it then records ``undefined``)."""
    if group.description and group.description != "undefined":
        return group.description
    return f"group {group.name}" if group.name.isdigit() else group.name
