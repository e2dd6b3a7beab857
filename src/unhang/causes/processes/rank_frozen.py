"""rank-frozen: a rank was stopped from outside, sleeps in native code with the interpreter lock, or sleeps forever.

What happens: the process exists and its last collective is finished, but nothing in it moves: no log line, no
heartbeat, no answer to a request for a flight-recorder dump.
Why it hangs: a stopped process (SIGSTOP, a debugger, a suspended container or laptop) executes nothing, nor does a rank
that waits for a stopped child of its own, such as a loader worker. A native call that keeps the interpreter lock lets
no other Python thread run, and NCCL's watchdog may block on it too. A rank that sleeps waits for a task, a lock or a
library that never answers.
Example: `ctypes.PyDLL("libx.so").receive()` for ten minutes on one rank; `kill -STOP` by a batch system's preemption.
Fix: continue the process (`kill -CONT PID`); release the lock around long native work (`ctypes.CDLL`,
`py::gil_scoped_release`).
Certain when: the process state is T; or two samples show the same thread holding the lock at the same line, and either
the rank gave no dump while other ranks did, or that thread sleeps in both samples. Never while its heartbeat goes on,
nor in a live job where that thread computes: it may end, and is single-rank work.
Likely when: the same rank's watchdog was stuck; other ranks wait and it does not; every sample found it asleep at one
line of its own, in no known work or wait; it joins a thread of its own that waits in `put` of a full queue, in `get` of
an empty one or for a lock; a child that it waits for is in state T; or torchrun had to kill it.
Possible when: there is only one sample, or no other rank answered either; or torch only says that it could not take the
lock, as it may at an ordinary exit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import place_of, short_place
from unhang.causes.wording import external_wait_reasons
from unhang.causes.wording.next_steps import inspect_all, inspect_ranks, now_or_next_run, rank_command
from unhang.causes.wording.signals import log_signal, stall_signal, waiters_line
from unhang.facts.laggard.laggards import HoldsInterpreter, Stopped, laggards_doing
from unhang.facts.laggard.own_threads import JoinsWaitingThread
from unhang.facts.laggard.own_work import AsleepAtLine
from unhang.facts.logs.log_statements import field_text, first_attempt, ranks_of_events
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts, RankState, Stall
from unhang.facts.stacks.gil_holders import GilHold, sleeps_with_gil
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Cause, Grade, Remedy
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences

CAUSE = Cause.RANK_FROZEN
tell = Sentences("causes/rank-frozen.toml")
_END_THREAD = {"put": "end-thread-in-put", "get": "end-thread-in-get", "acquire": "end-thread-in-acquire"}
_ALL_STOPPED = "$(ps -eo pid=,stat= | awk '$2 ~ /^T/ {print $1}')"


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Laggards that execute nothing; without a stall, processes that are stopped; lines about the lock."""
    for at, stopped in laggards_doing(facts, Stopped):
        yield (_stopped_child if stopped.children else _stopped)(facts, at.stall, stopped)
    for at, held in laggards_doing(facts, HoldsInterpreter):
        yield from (_gil_holder(facts, at.stall, rank, hold) for rank, hold in held.holds.items())
    for at, joins in laggards_doing(facts, JoinsWaitingThread):
        yield _joins(facts, at.stall, joins)
    for at, asleep in laggards_doing(facts, AsleepAtLine):
        yield _asleep(facts, at.stall, asleep.cohort)
    if not facts.stalls:
        yield from _stopped_alone(facts)
    yield from _gil_lines(facts)


def _stopped(facts: Facts, stall: Stall, stopped: Stopped) -> DetectorResult:
    ranks = stopped.ranks
    return stall_signal(
        Grade.KERNEL,
        tell("stopped", ranks=ranks),
        facts,
        stall,
        ranks=ranks,
        because=(tell("state", ranks=ranks), *waiters_line(stall), tell("who-stopped")),
        remedies=(_resume(facts, ranks),),
    )


def _stopped_child(facts: Facts, stall: Stall, stopped: Stopped) -> DetectorResult:
    first = stopped.children[0]
    pids = " ".join(str(child.pid) for child in stopped.children)
    return stall_signal(
        Grade.KERNEL,
        tell("child-stopped", ranks=stall.laggards, pid=first.pid),
        facts,
        stall,
        whole=False,  # the rank may wait for another of its children
        because=(
            tell("child-state", pid=pids, command=first.command),
            *waiters_line(stall),
            tell("who-stopped"),
        ),
        remedies=(remedy("resume-stopped-process", pids=pids),),
    )


def _stopped_alone(facts: Facts) -> Iterator[DetectorResult]:
    """Nothing tells who waits for whom (stacks may not be sampled): the process states tell this much."""
    ranks = tuple(r for r, known in sorted(facts.ranks.items()) if known.state is RankState.STOPPED and known.alive)
    if not ranks:
        return
    yield make_signal(
        Grade.KERNEL,
        tell("stopped-alone", ranks=ranks),
        whole=all(known.stack is not None or known.recording is not None for known in facts.ranks.values()),
        ranks=ranks,
        where=place_of(facts, ranks[0]),
        because=(tell("state", ranks=ranks), tell("who-stopped")),
        remedies=(_resume(facts, ranks),),
    )


def _resume(facts: Facts, ranks: Sequence[int]) -> Remedy:
    pids = [str(facts.ranks[r].pid) for r in ranks if facts.ranks[r].pid is not None] or [_ALL_STOPPED]
    return remedy("resume-stopped-process", pids=" ".join(pids))


def _gil_holder(facts: Facts, stall: Stall, rank: int, hold: GilHold) -> DetectorResult:
    where = first_user_frame(hold.thread.frames, facts.sources)
    return stall_signal(
        Grade.RECORD,  # read from the interpreter itself
        tell("lock-held", rank=rank),
        facts,
        stall,
        whole=hold.whole,
        ranks=(rank,),
        where=where or place_of(facts, rank),
        because=(
            tell("one-thread-holds", rank=rank),
            tell("sleeps-with-lock" if sleeps_with_gil(hold.thread) else "no-dump", rank=rank),
            *waiters_line(stall),
        ),
        remedies=(remedy("release-gil-in-extension", place=short_place(where)),),
    )


def _asleep(facts: Facts, stall: Stall, laggards: RankCohort) -> DetectorResult:
    """No work at all: what it sleeps in, and who would wake it, no stack of Python shows."""
    function = laggards.where.function if laggards.where is not None else "?"
    return stall_signal(
        Grade.STACK,
        tell("stands-still", ranks=stall.laggards, function=function),
        facts,
        stall,
        phase=laggards.phase,
        because=(
            tell("asleep", ranks=laggards.ranks),
            *waiters_line(stall),
            *external_wait_reasons.because(facts, laggards),
        ),
        more_evidence=external_wait_reasons.evidence(facts, laggards),
        remedies=(
            *(
                tuple(external_wait_reasons.remedies(facts, laggards))
                or (remedy("add-call-timeout", place=short_place(laggards.where)),)
            ),
            *inspect_ranks(facts, stall.laggards),
        ),
    )


def _joins(facts: Facts, stall: Stall, joins: JoinsWaitingThread) -> DetectorResult:
    """Neither of the two threads ends; who would serve the one that is joined, no stack shows."""
    place, call = short_place(joins.waits), joins.call
    return stall_signal(
        Grade.STACK,
        tell("joins", ranks=stall.laggards, thread=joins.thread, call=call, of=joins.of or "queue"),
        facts,
        stall,
        where=joins.where,
        because=(
            tell(
                "join-put" if call == "put" else "join-get" if call == "get" else "join-acquire",
                thread=joins.thread,
                place=place,
            ),
            tell("join-stands"),
            *waiters_line(stall),
        ),
        remedies=(remedy(_END_THREAD[call], place=short_place(joins.where), line=place),),
    )


def detect_at_end(facts: Facts) -> Iterator[DetectorResult]:
    """A process that torchrun had to kill, because it did not end by SIGTERM: it was stopped, stood in the kernel, or
    handles the signal itself. Likely where the others gave up waiting and its rank is known."""
    events = first_attempt(facts.events_of("te.closefail"))
    pids = {event.values.get("pid") for event in events}
    ranks = tuple(sorted({one.rank for one in facts.exits if one.pid in pids and one.rank is not None}))
    logged = logged_waits(facts)
    if not events or logged is None or logged.rank_set & set(ranks):
        return  # who waits may stand in a driver's call, or end by a handler
    yield log_signal(
        Grade.ORDER,
        tell("no-answer-to-sigterm" if ranks else "no-answer-of-pid", ranks=ranks, pid=field_text(events[0], "pid")),
        events,
        whole=bool(ranks),
        ranks=ranks,
        remedies=inspect_ranks(facts, ranks) if ranks else inspect_all(facts),
        because=(
            *((tell("waited-and-it-not", waiters=logged.ranks, ranks=ranks),) if ranks else ()),
            tell("ends-by-sigterm"),
        ),
    )


def _gil_lines(facts: Facts) -> Iterator[DetectorResult]:
    """The lock's line on few ranks; with a blocked watchdog on the same rank it is likely."""
    locked = first_attempt(facts.events_of("gil"))
    if not locked:
        return
    stuck = set(ranks_of_events(facts.events_of("hb.stuck", "hb.old")))
    ranks = ranks_of_events(locked)
    logged = logged_waits(facts)
    waiting = set(logged.ranks) if logged is not None else set()
    alone = bool(ranks) and not set(ranks) & waiting
    look = rank_command(facts, min(ranks, default=-1), "py-spy dump --native")
    yield log_signal(
        Grade.ORDER,
        tell("lock-held-by" if ranks else "lock-was-held", ranks=ranks),
        locked,
        remedies=now_or_next_run(facts, remedy("find-gil-holding-call", command=look)),
        whole=bool(set(ranks) & stuck) or (alone and bool(waiting)),
        because=(tell("no-python"),),
    )
