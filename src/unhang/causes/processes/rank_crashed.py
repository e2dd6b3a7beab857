"""rank-crashed: one rank ended with an exception or a signal; the other ranks time out as a consequence.

What happens: one process raises, is killed, or loses its training thread while the process stays alive.
Why it hangs: the other ranks are in a collective that this rank will never join, and nothing notifies them.
Example: rank 2 raises `FileNotFoundError` in its data set; ranks 0, 1 and 3 wait in all_reduce until the limit.
Fix: fix what the exception says; let the whole job end with the rank (torchrun does, a swallowed exception does not).
Certain when: the exception or signal is recorded, its rank is known, and the other ranks wait for it or failed after
it.
Possible when: an exception is recorded, but neither its rank nor its time is known; or a signal ended the rank, and
nothing shows whether a limit had passed before. What ended after a limit had passed is a consequence, never this cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.causes.detector import DetectorResult, Signal, make_signal
from unhang.causes.evidence_lines import group_label, operation_of, place_of, quote_rank, short_place, waiters_call
from unhang.causes.wording.signals import log_signal, stall_signal, waiters_line
from unhang.evidence.items import Frame, LogEvent
from unhang.facts.endings.crash_order import bare_exceptions, may_follow_from_others, names_its_cause
from unhang.facts.endings.crashes import Crash, first_timeouts, primary_crashes, signal_name
from unhang.facts.endings.ended_from_outside import ended_from_outside, is_interrupt
from unhang.facts.endings.first_timeouts import TimeoutOrder
from unhang.facts.endings.given_up import given_up
from unhang.facts.endings.good_endings import is_uncaught
from unhang.facts.endings.own_last_lines import handler_around
from unhang.facts.endings.traceback_echoes import is_echo
from unhang.facts.laggard.laggards import HandlesException, IdleActor, laggards_doing
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.logs.log_statements import field_text, first_attempt, hosts_of_events, ranks_of_events, short_message
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.machine.xids import program_xids
from unhang.facts.model import Facts, RankFacts, Stall
from unhang.findings import Cause, Consequence, Ending, Evidence, Grade, Phase, Remedy, Where
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text, shortened

CAUSE = Cause.RANK_CRASHED
tell = Sentences("causes/rank-crashed.toml")
SIGKILL, SIGSEGV, SIGBUS = 9, 11, 7
SENT_BY_HAND = (15, 2, 1)
"""Only crashes that the launcher did not cause carry these."""


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """The first failure that is nobody's echo; ranks that live on after an exception."""
    crashes = [c for c in primary_crashes(facts) if not c.is_gpu_out_of_memory and not _says_nothing(c, facts)]
    told: set[int | None] = set()
    if crashes:
        first = crashes[0]
        alike = (first.attempt, first.exception, first.message[:80])
        same = [c for c in crashes if (c.attempt, c.exception, c.message[:80]) == alike]
        told = {c.rank for c in same}
        yield _crash(facts, first, same)
    for at, handles in laggards_doing(facts, HandlesException):
        if not told & set(at.stall.laggards):
            yield _swallowed_exception(facts, at.stall, handles.ranks)


def _says_nothing(crash: Crash, facts: Facts) -> bool:
    """A torn traceback says nothing, and an exit code nothing more than the exceptions whose rank the log does not
    name."""
    if crash.exception or crash.signal is not None:
        return False
    return crash.exit_code is None or any(t.rank is None and t.exception and not is_echo(t) for t in facts.tracebacks)


def _crash(facts: Facts, crash: Crash, same: list[Crash]) -> Signal:
    ranks = tuple(sorted({c.rank for c in same if c.rank is not None}))
    stall = next((s for s in facts.stalls if set(s.laggards) & set(ranks)), None)
    call = stall.call if stall is not None else None
    where = crash.where or (place_of(facts, crash.rank) if crash.rank is not None else None)
    return make_signal(
        _grade(facts, crash, ranks),
        _summary(facts, crash, ranks),
        whole=bool(ranks) and not may_follow_from_others(facts, crash, awaited=stall is not None),
        ranks=ranks,
        group=group_label(facts, stall.group) if stall is not None else None,
        where=where,
        waiter_where=call.where if call else None,
        calls=waiters_call(stall.direct_waiters, call) if stall is not None else (),
        because=_because(facts, crash, ranks, stall),
        evidence=tuple(_evidence(crash, same, stall)),
        remedies=(_remedy(crash),),
        consequences=_consequences(facts, ranks, stall),
        ending=Ending.NAMED if names_its_cause(crash, facts) else None,
    )


def _grade(facts: Facts, crash: Crash, ranks: tuple[int, ...]) -> Grade:
    """What the process itself states, or its exit status. A SIGKILL of nobody in particular before the first step is
    usually the host's: that it was something else rests on no more than that."""
    if crash.signal is None and crash.exception:
        return Grade.STATED
    if crash.when is TimeoutOrder.UNKNOWN:
        return Grade.BASE_RATE  # processes are ended when a limit has passed, too
    return Grade.BASE_RATE if not ranks and _killed_while_loading(facts, crash) else Grade.KERNEL


def _killed_while_loading(facts: Facts, crash: Crash) -> bool:
    """SIGKILL before any step was counted: models and their optimizer states are made in the memory of the host, once
    for every process of a machine, and mostly it is its OOM killer that sends it."""
    if crash.signal != SIGKILL:
        return False
    return all(is_preparing(progress) for log in facts.logs for progress in log.progress)


def _summary(facts: Facts, crash: Crash, ranks: tuple[int, ...]) -> Text:
    if crash.signal is not None and crash.when is TimeoutOrder.UNKNOWN and ranks:
        return tell("killed-when", ranks=ranks, name=signal_name(crash.signal))
    if crash.signal is not None:
        return tell("killed" if ranks else "somebody-killed", ranks=ranks, name=signal_name(crash.signal))
    if not crash.exception:
        return tell("exited" if ranks else "somebody-exited", ranks=ranks, code=crash.exit_code)
    message = shortened(crash.message.splitlines()[0], 120) if crash.message else ""
    if crash.thread and ranks:
        return tell("thread-raised", ranks=ranks, thread=crash.thread, exception=crash.exception, message=message)
    kept = bool(ranks) and all(_is_kept_alive(facts.ranks.get(rank)) for rank in ranks)
    return tell(
        "main-thread-raised" if kept else "raised" if ranks else "somebody-raised",
        ranks=ranks,
        exception=crash.exception,
        message=message,
    )


def _is_kept_alive(known: RankFacts | None) -> bool:
    """Its main thread is at the end of the interpreter, and the process lives: another thread goes on."""
    return known is not None and known.alive and known.activity is not None and known.activity.phase is Phase.SHUTDOWN


def _because(facts: Facts, crash: Crash, ranks: tuple[int, ...], stall: Stall | None) -> tuple[Text, ...]:
    lines = []
    if crash.thread:
        lines.append(tell("thread-ended", thread=crash.thread))
    elif crash.message and crash.when is TimeoutOrder.BEFORE:
        lines.append(tell("first-exception"))
    if crash.when is TimeoutOrder.UNKNOWN and ranks:
        lines.append(tell("order-not-told"))
    if crash.signal == SIGKILL:
        lines.append(tell("sigkill"))
    if crash.signal in SENT_BY_HAND:
        lines.append(tell("not-the-launcher"))
    if crash.signal in (SIGSEGV, SIGBUS):
        lines.append(tell("native-crash"))
    if stall is not None and stall.call is not None:
        lines.append(tell("waits-for-it", waiters=stall.waiters, operation=operation_of(stall.call)))
    echoes = [t for t in facts.tracebacks if t.rank is not None and t.rank not in ranks]
    if echoes:
        lines.append(tell("partner-gone", count=len(echoes)))
    return tuple(lines)


def _evidence(crash: Crash, same: list[Crash], stall: Stall | None) -> Iterator[Evidence]:
    yield crash.evidence
    for other in same[1:3]:
        if other is not crash:
            yield other.evidence
    if stall is not None and stall.call is not None:
        yield stall.call.evidence


def _remedy(crash: Crash) -> Remedy:
    if crash.signal == SIGKILL:
        return remedy("find-sigkill-sender")
    if crash.signal in SENT_BY_HAND:
        return remedy("find-signal-sender", name=signal_name(crash.signal))
    if crash.signal is not None:
        return remedy("locate-native-crash")
    if crash.thread:
        return remedy("exit-on-thread-exception", place=short_place(crash.where))
    said = crash.evidence.source
    place = short_place(crash.where or Where(said.path, said.line, ""))
    return remedy("fix-rank-exception", exception=crash.exception or "error", place=place)


def _consequences(facts: Facts, ranks: tuple[int, ...], stall: Stall | None) -> tuple[Consequence, ...]:
    echoes = {t.rank for t in facts.tracebacks if t.rank is not None} - set(ranks)
    fallen = {r.rank for r in facts.ranks.values() if r.exit is not None and r.exit.terminated_by_launcher} - set(ranks)
    waiting = set(stall.waiters) if stall is not None else set()
    affected = tuple(sorted(echoes | fallen | waiting))
    if not affected:
        return ()
    return (Consequence(CAUSE, affected, len(affected), tell("waited-or-ended", ranks=affected)),)


def _swallowed_exception(facts: Facts, stall: Stall, ranks: tuple[int, ...]) -> Signal:
    place, caught = handler_around(facts, _frames(facts, ranks[0])) or ("the handler", "")
    return stall_signal(
        Grade.SOURCE,
        tell("caught", ranks=ranks),
        facts,
        stall,
        whole=False,  # the exception itself was not seen
        ranks=ranks,
        because=(tell("in-except", ranks=ranks, place=place, caught=caught),),
        evidence=tuple(quote for rank in ranks for quote in quote_rank(facts.ranks[rank])),
        remedies=(remedy("reraise-handled-exception", place=place),),
    )


def _frames(facts: Facts, rank: int) -> Sequence[Frame]:
    activity = facts.ranks[rank].activity
    return activity.frames if activity is not None else ()


# ---------------------------------------------------------------------------------------------------
# an actor without a call


def detect_actor(facts: Facts) -> Iterator[DetectorResult]:
    """An actor that is a rank has left its method, most likely by an exception, and waits for the next call: its
    exception goes to whoever asks for the result, and nobody asks before the others are done (`ray.get(runs[0])`).
    """
    for at, _ in laggards_doing(facts, IdleActor):
        stall = at.stall
        yield stall_signal(
            Grade.STACK,
            tell("left-method", ranks=stall.laggards),
            facts,
            stall,
            because=(tell("waits-for-call", ranks=stall.laggards), *waiters_line(stall), tell("told-to-asker")),
            remedies=(remedy("await-all-actors-together"),),
        )


# ---------------------------------------------------------------------------------------------------
# ended from outside


def detect_from_outside(facts: Facts) -> Iterator[DetectorResult]:
    """The first line that names who ended the job, when nobody failed by itself: `*** JOB 418211 ON node1 CANCELLED …
    DUE TO TIME LIMIT ***`, an evicted pod, a signal to torchrun while ranks spoke. Never certain: a job that hangs is
    ended alike.
    """
    ended = ended_from_outside(facts)
    if ended is None or ended.may_have_been_stuck:
        return
    named = (host for event in ended.events if (host := field_text(event, "host")))
    yield log_signal(
        Grade.ORDER,  # nobody failed before it: the line itself would end a job that hangs just as well
        _summary_from_outside(ended.events[0]),
        ended.events,
        "end-before-time-limit",
        ending=Ending.FROM_OUTSIDE,
        nodes=tuple(dict.fromkeys((*named, *hosts_of_events(ended.events)))),
        because=(tell("before-it"),),
        ranks=(),
    )


def _summary_from_outside(event: LogEvent) -> Text:
    if event.kind == "slurm.cancel":
        reason = field_text(event, "reason")
        if reason:
            return tell("slurm-reason", reason=reason)
        return tell("slurm-cancelled")
    if event.kind == "slurm.nodefail":
        return tell("node-lost", host=field_text(event, "host"))
    if event.kind == "k8s.evicted":
        return tell("evicted")
    if is_interrupt(event):
        return tell("ctrl-c")
    return tell("signal-sent", signal=field_text(event, "signal"))


# ---------------------------------------------------------------------------------------------------
# in lines alone: a rank that is gone


def detect_gone(facts: Facts) -> Iterator[DetectorResult]:
    """In lines alone, the first that is there: a device error that only a kernel of the program causes, the last line
    of a traceback, a launcher that lost a worker, a partner that closed the connection (`store->get('0') got error:
    Connection reset by peer`). Never certain: how it ended is not in these lines.
    """
    if primary_crashes(facts):
        return
    kernel = first_attempt(facts.events_of("cuda.assert", "cuda.illegal", "cuda.fork")) or program_xids(facts)
    if kernel:
        ranks = ranks_of_events(kernel)
        yield log_signal(
            Grade.STATED,
            tell("kernel-failed-on" if ranks else "kernel-failed", ranks=ranks, error=short_message(kernel[0])),
            kernel,
            "find-failing-kernel-launch",
            whole=False,  # the exception that ended the process was not read
            because=(tell("index-error"),),
        )
        return
    bare = bare_exceptions(facts)
    if bare:
        yield _bare(bare)
        return
    died = first_attempt(facts.events_of("ray.died"))
    meant = given_up(facts) is not None or facts.events_of("ray.killed")
    if died and not meant and first_timeouts(facts).classify_line(died[0]) is not TimeoutOrder.AFTER:
        yield _reported_dead(died)
        return
    logged = logged_waits(facts)
    gone = [w for w in logged.waits if w.partner_gone and w.awaited is not None] if logged is not None else []
    if gone:
        awaited = tuple(sorted({w.awaited for w in gone if w.awaited is not None}))
        unnamed = any(t.rank is None and is_uncaught(t) for t in facts.tracebacks)  # theirs, perhaps
        yield make_signal(
            Grade.ORDER,
            tell("ended-before-first", awaited=awaited),
            whole=not unnamed,
            ranks=awaited,
            because=(
                tell("closed-connection"),
                *((tell(_own_log(facts, awaited)),) if not unnamed else ()),
            ),
            evidence=tuple(w.evidence for w in gone[:3]),
            remedies=(remedy("read-rank-logs", ranks=awaited),),
        )


def _own_log(facts: Facts, ranks: tuple[int, ...]) -> str:
    return "own-log-silent" if any(log.rank in ranks for log in facts.logs) else "own-log-missing"


def _reported_dead(died: tuple[LogEvent, ...]) -> DetectorResult:
    return log_signal(
        Grade.STATED,
        tell("launcher-lost"),
        died,
        "find-worker-exit-reason",
        whole=False,
        because=(tell("no-exception-read"),),
    )


def _bare(events: tuple[LogEvent, ...]) -> DetectorResult:
    ranks = ranks_of_events(events[:1])
    exception, message = field_text(events[0], "exception"), shortened(field_text(events[0], "error"), 100)
    return log_signal(
        Grade.STATED,
        tell("raised" if ranks else "somebody-raised", ranks=ranks, exception=exception, message=message),
        events,
        whole=False,
        ranks=ranks,
        because=(tell("last-line"),),
        remedies=(remedy("read-rank-logs", ranks=ranks),) if ranks else (),
    )
