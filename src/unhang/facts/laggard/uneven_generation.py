"""Ranks that still generate text where the others have done their share: every rank generates, some take longer.

Reinforcement learning without an inference engine: each rank answers its own prompts, then all gather the lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

from unhang.evidence.items import Frame
from unhang.facts.evidence_quotes import quote_traceback
from unhang.facts.logs.waits_in_logs import LoggedWaits, logged_waits
from unhang.facts.model import Facts, Stall
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Evidence, Where

_TRAINERS = ("trl/trainer/", "trl/experimental/", "swift/trainers/", "swift/rlhf_trainers/", "verl/workers/rollout/")
_GENERATES = ("_generate", "generate")


@dataclass(frozen=True, slots=True)
class LongerGeneration:
    """``ranks`` generate, ``waiters`` are done. ``function``: what all of them are in. ``limit_s``: None: not known."""

    ranks: tuple[int, ...]
    waiters: tuple[int, ...]
    function: str
    where: Where | None
    waiter_where: Where | None
    limit_s: float | None
    evidence: tuple[Evidence, ...]
    seen: bool
    """Their stacks show it; else only those of the ranks that waited do."""


def longer_generation(facts: Facts, stall: Stall) -> LongerGeneration | None:
    """The laggards of ``stall`` are in the same call of a library as a waiter, at an earlier line of it."""
    known = [facts.ranks[rank].activity for rank in stall.laggards]
    if not known or any(one is None or one.what != "generate" for one in known):
        return None
    first = known[0]
    for waiter in stall.direct_waiters:
        activity = facts.ranks[waiter].activity
        if first is None or activity is None or _inside_the_model(activity.frames):
            continue
        shared = _done_by_one(first.frames, activity.frames)
        if shared:
            evidence = (first.evidence, activity.evidence)
            # A stack that was cut short lacks the user's frames; the call both are in came from the same line.
            where, waits = first.where or activity.where, activity.where
            limit = _limit(logged_waits(facts))
            return LongerGeneration(stall.laggards, stall.waiters, shared, where, waits, limit, evidence, seen=True)
    return None


def longer_generation_printed(facts: Facts) -> LongerGeneration | None:
    """From logs alone: who gave up stands behind the generation in a trainer's own function, others did not give up."""
    logged = logged_waits(facts)
    if logged is None or any(known.stack is not None for known in facts.ranks.values()):
        return None
    for trace in facts.tracebacks:
        frame = next((f for f in trace.frames if _is_generating(f)), None)
        if frame is None or trace.rank not in logged.rank_set or _inside_the_model(trace.frames):
            continue
        where = first_user_frame(trace.frames)
        ranks = tuple(sorted(set(facts.ranks) - set(logged.ranks)))
        if not ranks and (facts.world_size or 0) <= len(logged.ranks):
            return None  # all of them are behind the generation
        evidence = (quote_traceback(trace),)
        return LongerGeneration(ranks, logged.ranks, frame.function, where, where, _limit(logged), evidence, seen=False)
    return None


def _limit(logged: LoggedWaits | None) -> float | None:
    return min(logged.limits, default=None) if logged is not None else None


def _done_by_one(lag: tuple[Frame, ...], wait: tuple[Frame, ...]) -> str:
    """The innermost function of a trainer that both are in, the waiter at a later line; empty without one."""
    lines = {(frame.file, frame.function.rpartition(".")[2]): frame.line or 0 for frame in reversed(lag)}
    for frame in wait:
        line = lines.get((frame.file, frame.function.rpartition(".")[2]))
        if line is not None and _is_generating(frame):
            return frame.function if line < (frame.line or 0) else ""
    return ""


def _inside_the_model(frames: tuple[Frame, ...]) -> bool:
    """It generates itself: sharded parameters are gathered for every token."""
    return any("transformers/generation/" in frame.file for frame in frames)


def _is_generating(frame: Frame) -> bool:
    name = frame.function.rpartition(".")[2]
    return name.startswith(_GENERATES) and any(part in frame.file for part in _TRAINERS)
