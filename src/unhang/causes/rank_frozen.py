"""rank-frozen: a rank was stopped from outside, or one of its threads holds the interpreter lock in native code.

What happens: the process exists, its last collective is finished, and nothing in it moves: no log line, no heartbeat,
no answer to a request for a flight-recorder dump.
Why it hangs: a stopped process (SIGSTOP, a debugger, a suspended container or laptop) executes nothing; a native call
that keeps the interpreter lock lets no other Python thread run, and NCCL's watchdog may block on it as well.
Example: `ctypes.PyDLL("libx.so").compute()` for ten minutes on one rank; `kill -STOP` by a batch system's preemption.
Fix: continue the process (`kill -CONT PID`); release the lock around long native work
(`ctypes.CDLL`, `py::gil_scoped_release`).
Certain when: the process state is T; or two looks show the same thread holding the lock at the same line, and either
the rank gave no dump while others did, or that thread sleeps in both looks. Never while its heartbeat goes on.
Possible when: only one look, or no other rank answered either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.facts.lock_holders import holds_lock, lock_holder, sleeps_with_lock
from unhang.facts.model import Facts, RankState, Stall
from unhang.findings import Cause, Certainty, Finding, Remedy, RemedyKind, Text, say
from unhang.rules.evidence_lines import call_of, group_label, hosts_of, operation_of, place_of, quote_stall
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.RANK_FROZEN


def check(facts: Facts) -> Iterator[Answer]:
    """Laggards that execute nothing."""
    for stall in facts.stalls:
        stopped = [r for r in stall.laggards if facts.ranks[r].state is RankState.STOPPED]
        if stopped:
            yield _stopped(facts, stall, stopped)
            continue
        for rank in stall.laggards:
            certainty = holds_lock(facts, facts.ranks[rank])
            if certainty is not None:
                yield _lock_holder(facts, stall, rank, certainty)
    if not facts.stalls:
        yield from _stopped_alone(facts)


def _stopped_alone(facts: Facts) -> Iterator[Finding]:
    """Nothing tells who waits for whom (nobody may look at the stacks): the process states tell this much."""
    ranks = tuple(r for r, known in sorted(facts.ranks.items()) if known.state is RankState.STOPPED and known.alive)
    if not ranks:
        return
    blind = any(known.stack is None and known.recording is None for known in facts.ranks.values())
    yield finding(
        CAUSE,
        Certainty.LIKELY if blind else Certainty.CERTAIN,
        say("{ranks:who} {ranks:is|are} stopped (state T); a job cannot go on without {ranks:it|them}", ranks=ranks),
        ranks=ranks,
        nodes=hosts_of(facts, ranks),
        where=place_of(facts, ranks[0]),
        because=(say("{ranks:who}: process state T (stopped by a signal or a debugger)", ranks=ranks), _WHO),
        remedies=(_resume(facts, ranks),),
    )


_WHO = say("who stopped it is not recorded: look for preemption, a debugger, or job control (Ctrl-Z)")


def _resume(facts: Facts, ranks: Sequence[int]) -> Remedy:
    pids = " ".join(str(facts.ranks[r].pid) for r in ranks if facts.ranks[r].pid is not None)
    return Remedy(
        title=say("Continue the stopped process"),
        kind=RemedyKind.INFRASTRUCTURE,
        change=say("kill -CONT {pids}", pids=pids or "PID"),
        cost=say("none; the job goes on if its limit has not passed"),
        verify=say("ps -o pid,stat -p {pids} no longer shows T", pids=pids.replace(" ", ",") or "PID"),
    )


def _stopped(facts: Facts, stall: Stall, ranks: list[int]) -> Finding:
    because = (
        say("{ranks:who}: process state T (stopped by a signal or a debugger)", ranks=ranks),
        *_waiting(stall),
        _WHO,
    )
    return _build(
        facts,
        stall,
        tuple(ranks),
        Certainty.CERTAIN,
        because,
        (_resume(facts, ranks),),
        say("{ranks:who} {ranks:is|are} stopped (state T); the others wait for it", ranks=ranks),
    )


def _lock_holder(facts: Facts, stall: Stall, rank: int, certainty: Certainty) -> Finding:
    release = remedy("release-the-interpreter-lock-around-the-native")
    because = (
        say("rank {rank}: one thread holds the interpreter lock at the same line in every look", rank=rank),
        _no_other_runs(facts, rank),
        *_waiting(stall),
    )
    return _build(
        facts,
        stall,
        (rank,),
        certainty,
        because,
        (release,),
        say("rank {rank} is inside a native call that holds the interpreter lock; the others wait for it", rank=rank),
    )


def _no_other_runs(facts: Facts, rank: int) -> Text:
    stack = facts.ranks[rank].stack
    holder = lock_holder(stack) if stack is not None else None
    if holder is not None and sleeps_with_lock(holder):
        return say("rank {rank}: that thread sleeps in native code and keeps the lock meanwhile", rank=rank)
    return say("rank {rank} gave no flight-recorder dump: no other thread of it could run", rank=rank)


def _waiting(stall: Stall) -> tuple[Text, ...]:
    if stall.call is None:
        return ()
    return (
        say(
            "{waiters:who} {waiters:waits|wait} in {operation}",
            waiters=stall.direct_waiters,
            operation=operation_of(stall.call),
        ),
    )


def _build(
    facts: Facts,
    stall: Stall,
    ranks: tuple[int, ...],
    certainty: Certainty,
    because: tuple[Text, ...],
    remedies: tuple[Remedy, ...],
    summary: Text,
) -> Finding:
    return finding(
        CAUSE,
        certainty,
        summary,
        ranks=ranks,
        nodes=hosts_of(facts, ranks),
        group=group_label(facts, stall.group),
        where=place_of(facts, ranks[0]),
        waiter_where=stall.call.where if stall.call else None,
        calls=call_of(stall.direct_waiters, stall.call),
        because=because,
        evidence=quote_stall(facts, stall),
        remedies=remedies,
    )
