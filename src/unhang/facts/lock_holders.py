"""Threads that keep the interpreter lock in native code."""

from __future__ import annotations

from unhang.facts.model import Facts, RankFacts
from unhang.findings import Certainty


def holds_lock(facts: Facts, rank: RankFacts) -> Certainty | None:
    """How sure it is that a thread of this rank keeps the interpreter lock and does not move."""
    if rank.stack is None:
        return None
    holder = next((t for t in rank.stack.threads if t.holds_gil), None)
    if holder is None or not holder.frames:
        return None
    looks = [next((t for t in look.threads if t.holds_gil), None) for look in rank.earlier_stacks]
    same_line = [t for t in looks if t is not None and t.frames and t.frames[0] == holder.frames[0]]
    others_answered = any(other.recording is not None for other in facts.ranks.values())
    silent = rank.recording is None and others_answered
    if silent and same_line:
        return Certainty.CERTAIN
    if silent or (looks and len(same_line) == len(looks) and rank.moving is False):
        return Certainty.LIKELY if silent else None
    return None
