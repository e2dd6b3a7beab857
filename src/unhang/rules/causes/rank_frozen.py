"""rank-frozen: a rank was stopped from outside, or one of its threads holds the interpreter lock in native code.

What happens: the process exists, its last collective is finished, and nothing in it moves: no log line, no heartbeat,
no answer to a request for a flight-recorder dump.
Why it hangs: a stopped process (SIGSTOP, a debugger, a suspended container or laptop) executes nothing; a native call
that keeps the interpreter lock lets no other Python thread run, and NCCL's watchdog may block on it as well.
Example: `ctypes.PyDLL("libx.so").compute()` for ten minutes on one rank; `kill -STOP` by a batch system's preemption.
Fix: continue the process (`kill -CONT PID`); release the lock around long native work
(`ctypes.CDLL`, `py::gil_scoped_release`).
Certain when: the process state is T; or two looks show the same thread holding the lock at the same line and the rank
gave no dump while others did.
Possible when: only one look, or no other rank answered either.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.lock_holders import holds_lock
from unhang.facts.model import Facts, RankState, Stall
from unhang.findings import Cause, Certainty, Finding, Remedy, RemedyKind, Text, say
from unhang.rules.evidence_lines import call_of, group_label, hosts_of, operation_of, place_of, quote_stall
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


def _stopped(facts: Facts, stall: Stall, ranks: list[int]) -> Finding:
    pids = ", ".join(str(facts.ranks[r].pid) for r in ranks if facts.ranks[r].pid is not None)
    resume = Remedy(
        title=say("Continue the stopped process"),
        kind=RemedyKind.INFRASTRUCTURE,
        change=say("kill -CONT {pids}", pids=pids or "PID"),
        cost=say("none; the job goes on if its limit has not passed"),
        verify=say("ps -o pid,stat -p {pids} no longer shows T", pids=pids or "PID"),
    )
    because = (
        say("{ranks:who}: process state T (stopped by a signal or a debugger)", ranks=ranks),
        *_waiting(stall),
        say("who stopped it is not recorded: look for preemption, a debugger, or job control (Ctrl-Z)"),
    )
    return _build(
        facts,
        stall,
        tuple(ranks),
        Certainty.CERTAIN,
        because,
        (resume,),
        say("{ranks:who} {ranks:is|are} stopped (state T); the others wait for it", ranks=ranks),
    )


def _lock_holder(facts: Facts, stall: Stall, rank: int, certainty: Certainty) -> Finding:
    release = Remedy(
        title=say("Release the interpreter lock around the native call"),
        kind=RemedyKind.CODE,
        change=say(
            "use ctypes.CDLL instead of PyDLL, or py::gil_scoped_release / Py_BEGIN_ALLOW_THREADS in the extension"
        ),
        cost=say("none for code that does not touch Python objects inside the call"),
        verify=say("py-spy dump --pid PID no longer shows the same thread as active+gil for long"),
    )
    because = (
        say("rank {rank}: one thread holds the interpreter lock at the same line in every look", rank=rank),
        say("rank {rank} gave no flight-recorder dump: no other thread of it could run", rank=rank),
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
        rule=__name__.rsplit(".", 1)[-1],
        weight=float(len(stall.waiters)),
    )
