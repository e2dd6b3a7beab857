"""The evidence a finding quotes: the laggard's place, a waiter's call, the line of a log."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import CallMismatch, Facts, PendingCall, RankFacts, Stall
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.facts.waiting.pending_call_frames import last_recorded_call
from unhang.facts.waiting.progress_from_stacks import STACK_GROUP
from unhang.findings import Call, Evidence, Where

MAX_QUOTES = 6


def quote_stall(facts: Facts, stall: Stall) -> tuple[Evidence, ...]:
    """Where the laggards stand, then one waiter's call."""
    quotes = [line for rank in stall.laggards[:2] for line in quote_rank(facts.ranks[rank])]
    if stall.call is not None:
        quotes.append(stall.call.evidence)
    return tuple(quotes[:MAX_QUOTES])


def quote_rank(rank: RankFacts) -> list[Evidence]:
    """What shows where this rank stands: its stack, else its exit, else its last line."""
    if rank.activity is not None:
        return [rank.activity.evidence]
    if rank.exit is not None:
        return [quote_exit(rank)]
    last = last_recorded_call(rank)
    if last is not None:
        return [last.evidence]
    return [rank.last_line] if rank.last_line is not None else []


def quote_exit(rank: RankFacts) -> Evidence:
    """The line that tells how the process ended."""
    assert rank.exit is not None
    text = rank.exit.text or f"rank {rank.rank} ended with exit code {rank.exit.exit_code}"
    return Evidence(rank.exit.source, text, rank.rank)


def quote_waits(facts: Facts) -> tuple[Evidence, ...]:
    """The first lines of ranks that gave up waiting."""
    logged = logged_waits(facts)
    return tuple(wait.evidence for wait in logged.waits[:2]) if logged is not None else ()


def operation_of(call: PendingCall | None) -> str:
    """The operation's name; with the recorder off only a position is known, and no name."""
    return (call.operation if call is not None else "") or "a collective"


def numbered(operation: str, position: int | None) -> str:
    """The operation with its position, as in both languages; empty where it has no name, as of a wait on the store."""
    return operation if position is None or not operation else f"{operation.removeprefix('a ')} #{position}"


def quote_mismatch(mismatch: CallMismatch) -> tuple[Evidence, ...]:
    """One record for each kind of call."""
    quotes = []
    for ranks in mismatch.calls.values():
        first = next((mismatch.pending[r] for r in ranks if r in mismatch.pending), None)
        if first is not None:
            quotes.append(first.evidence)
    return tuple(quotes[:MAX_QUOTES])


def calls_of_mismatch(mismatch: CallMismatch) -> tuple[Call, ...]:
    """The calls side by side, biggest cohort first."""
    return tuple(
        Call(
            ranks=ranks,
            operation=signature.operation,
            position=mismatch.position,
            elements=signature.input_elements,
            dtype=signature.input_dtypes[0] if signature.input_dtypes else None,
        )
        for signature, ranks in mismatch.calls.items()
    )


def waiters_call(ranks: Iterable[int], pending: PendingCall | None) -> tuple[Call, ...]:
    """The waiters' call as a line of the verdict."""
    if pending is None:
        return ()
    return (Call(tuple(sorted(ranks)), pending.operation, pending.position, pending.elements, pending.dtype),)


def place_of(facts: Facts, rank: int) -> Where | None:
    """The first user frame of a rank: of its stack, else its traceback, its pending call, its last recorded call."""
    known = facts.ranks.get(rank)
    if known is None:
        return None
    if known.activity is not None and known.activity.where is not None:
        return known.activity.where
    for traceback in known.tracebacks:
        where = first_user_frame(traceback.frames)
        if where is not None:
            return where
    for group in facts.groups.values():
        call = group.pending(rank)
        if call is not None and call.where is not None:
            return call.where
    last = last_recorded_call(known)
    return last.where if last is not None else None


def short_place(where: Where | None) -> str:
    """``train.py:88``; ``that line`` where it is not known."""
    if where is None:
        return "that line"
    name = PurePosixPath(where.file).name
    return name if where.line is None else f"{name}:{where.line}"


def hosts_of(facts: Facts, ranks: Iterable[int]) -> tuple[str, ...]:
    """Nodes of these ranks, each once, in order of rank."""
    hosts = (facts.ranks[rank].host for rank in sorted(ranks) if rank in facts.ranks)
    return tuple(dict.fromkeys(host for host in hosts if host))


def group_label(facts: Facts, name: str | None) -> str | None:
    """A group as the user knows it: its description where it has one."""
    if name is None or name == STACK_GROUP:
        return None
    if name not in facts.groups:
        return name
    group = facts.groups[name]
    if group.description and group.description != "undefined":
        return group.description
    return "default_pg" if group.is_default and group.members_known else name
