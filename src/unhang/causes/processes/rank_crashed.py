"""rank-crashed: one rank ended by an exception or a signal; the others time out as a consequence.

What happens: one process raises, is killed, or loses the thread that trains while the process lives on.
Why it hangs: the others are inside a collective that this rank will never join; nothing tells them.
Example: rank 2 raises `FileNotFoundError` in its data set; ranks 0, 1 and 3 wait in all_reduce until the limit.
Fix: mend what the exception says; let the whole job die with the rank (torchrun does, a swallowed exception does not).
Certain when: the exception or signal is recorded, its rank is known, and the others wait or fell after it.
Possible when: an exception is recorded but neither its rank nor its time can be told; a signal ended it, and nothing
tells whether a limit had passed before. What ended after one had passed is a consequence and never this.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, Signal, make_signal
from unhang.causes.evidence_lines import group_label, operation_of, place_of, quote_rank, waiters_call
from unhang.causes.wording.stall_signal import stall_signal
from unhang.facts.endings.crashes import Crash, first_timeouts, primary_crashes, signal_name
from unhang.facts.endings.failure_kinds import cause_of_messages, cause_of_text, is_store_port
from unhang.facts.endings.first_timeouts import TimeoutOrder
from unhang.facts.endings.stated_failures import defers_to_other_failure
from unhang.facts.endings.traceback_echoes import is_echo
from unhang.facts.laggard.laggards import HandlesException, laggards_doing
from unhang.facts.logs.event_timing import is_preparing
from unhang.facts.model import Facts, Stall
from unhang.findings import Cause, Consequence, Ending, Evidence, Grade, Remedy, shortened
from unhang.knowledge.remedies import remedy
from unhang.sentences import Text, say

CAUSE = Cause.RANK_CRASHED
SIGKILL, SIGSEGV, SIGBUS = 9, 11, 7
SENT_BY_HAND = (15, 2, 1)
"""Only crashes that the launcher did not cause carry these."""


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """The first failure that is nobody's echo; ranks that live on after an exception."""
    crashes = [c for c in primary_crashes(facts) if not c.is_gpu_out_of_memory and not _says_nothing(c, facts)]
    told: set[int | None] = set()
    if crashes:
        first = crashes[0]
        same = [c for c in crashes if _same_failure(c, first)]
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


def _names_its_cause(crash: Crash, facts: Facts) -> bool:
    """The error says itself what it died of (a device, a port, a driver), or that something below it failed."""
    if not crash.exception:
        return False
    text = f"{crash.exception}: {crash.message}"
    cause = cause_of_text(text)
    if cause is Cause.RENDEZVOUS and "already in use" in crash.message:
        return is_store_port(facts.tracebacks)
    if cause is Cause.UNKNOWN and cause_of_messages(text) is None:
        return defers_to_other_failure(crash, facts)
    return cause is not None


def _same_failure(crash: Crash, first: Crash) -> bool:
    return (crash.attempt, crash.exception, crash.message[:80]) == (first.attempt, first.exception, first.message[:80])


def _crash(facts: Facts, crash: Crash, same: list[Crash]) -> Signal:
    ranks = tuple(sorted({c.rank for c in same if c.rank is not None}))
    stall = next((s for s in facts.stalls if set(s.laggards) & set(ranks)), None)
    call = stall.call if stall is not None else None
    where = crash.where or (place_of(facts, crash.rank) if crash.rank is not None else None)
    return make_signal(
        CAUSE,
        _grade(facts, crash, ranks),
        _summary(crash, ranks),
        whole=bool(ranks) and not _may_follow_from_others(facts, crash, stall),
        ranks=ranks,
        group=group_label(facts, stall.group) if stall is not None else None,
        where=where,
        waiter_where=call.where if call else None,
        calls=waiters_call(stall.direct_waiters, call) if stall is not None else (),
        because=_because(facts, crash, ranks, stall),
        evidence=tuple(_evidence(crash, same, stall)),
        remedies=(_remedy(crash),),
        consequences=_consequences(facts, ranks, stall),
        ending=Ending.NAMED if _names_its_cause(crash, facts) else None,
    )


def _grade(facts: Facts, crash: Crash, ranks: tuple[int, ...]) -> Grade:
    """What the process itself states, or its exit status. A SIGKILL of nobody in particular before the first step is
    usually the host's: that it was something else rests on no more than that."""
    if crash.signal is None and crash.exception:
        return Grade.STATED
    if crash.when is TimeoutOrder.UNKNOWN:
        return Grade.BASE_RATE  # processes are ended when a limit has passed, too
    return Grade.BASE_RATE if not ranks and _killed_while_loading(facts, crash) else Grade.KERNEL


def _may_follow_from_others(facts: Facts, crash: Crash, stall: Stall | None) -> bool:
    """What would tell that another process failed first is missing."""
    if crash.signal is None and (not crash.exception or _is_cut(crash.message)):
        return True  # what it died of, or the rest of what it said, stands in no line that was read
    if crash.signal is None and first_timeouts(facts).reported_by(crash.rank, crash.attempt):
        return True  # its process was there when the limit passed, and may have caught what it raised before
    if crash.signal is None and crash.exit_code is None and _has_lost_its_frames(facts, crash):
        return True  # where it was raised would tell whether it is one that is handled again and again
    if crash.when is TimeoutOrder.UNKNOWN or _in_a_line_with_others(facts, crash):
        return True
    alone = len(facts.ranks) == 1 and (facts.world_size or 1) > 1
    return alone and stall is None and crash.signal is None


def _has_lost_its_frames(facts: Facts, crash: Crash) -> bool:
    """A traceback of which no frame could be read."""
    told = (crash.rank, crash.attempt, crash.exception, crash.message)
    raised = [
        trace for trace in facts.tracebacks if (trace.rank, trace.attempt, trace.exception, trace.message) == told
    ]
    return bool(raised) and not any(trace.frames for trace in raised)


def _killed_while_loading(facts: Facts, crash: Crash) -> bool:
    """SIGKILL before any step was counted: models and their optimizer states are made in the memory of the host, once
    for every process of a machine, and mostly it is its OOM killer that sends it."""
    if crash.signal != SIGKILL:
        return False
    return all(is_preparing(progress) for log in facts.logs for progress in log.progress)


def _is_cut(message: str) -> bool:
    return not message.strip() or message.count("[") > message.count("]")


def _in_a_line_with_others(facts: Facts, crash: Crash) -> bool:
    """Line breaks were lost: what stands in one line with a timeout may have come before it or after it."""
    place = crash.evidence.source
    events = (event.source for event in facts.events_of("wd.", "hb.", "gloo.to", "te."))
    others = (trace.source for trace in facts.tracebacks if trace.message != crash.message)
    return any((one.path, one.line) == (place.path, place.line) for one in (*events, *others))


def _summary(crash: Crash, ranks: tuple[int, ...]) -> Text:
    if crash.signal is not None and crash.when is TimeoutOrder.UNKNOWN and ranks:
        return say(
            "{ranks:who} {ranks:was|were} killed by {name} and others waited in vain; which came first is not told",
            ranks=ranks,
            name=signal_name(crash.signal),
        )
    if crash.signal is not None and not ranks:
        return say("a process was killed by {name}; which rank it was is not told", name=signal_name(crash.signal))
    if crash.signal is not None:
        return say(
            "{ranks:who} {ranks:was|were} killed by {name}; the others wait for it",
            ranks=ranks,
            name=signal_name(crash.signal),
        )
    if not crash.exception and not ranks:
        return say("a process ended with exit code {code}", code=crash.exit_code)
    if not crash.exception:
        return say("{ranks:who} ended with exit code {code}", ranks=ranks, code=crash.exit_code)
    message = shortened(crash.message.splitlines()[0], 120) if crash.message else ""
    if not ranks:
        return say("a process ended with {exception}: {message}", exception=crash.exception, message=message)
    return say("{ranks:who} ended with {exception}: {message}", ranks=ranks, exception=crash.exception, message=message)


def _because(facts: Facts, crash: Crash, ranks: tuple[int, ...], stall: Stall | None) -> tuple[Text, ...]:
    lines = []
    if crash.thread:
        lines.append(say("the exception ended thread {thread}; the process lived on", thread=crash.thread))
    elif crash.message and crash.when is TimeoutOrder.BEFORE:
        lines.append(say("it is the first exception in time that is not an echo of a lost partner"))
    if crash.when is TimeoutOrder.UNKNOWN and ranks:
        lines.append(say("nothing tells whether it ended before others had waited in vain, or after"))
    if crash.signal == SIGKILL:
        lines.append(
            say("SIGKILL leaves no trace in the process: the host's OOM killer, a scheduler or a person sent it")
        )
    if crash.signal in SENT_BY_HAND:
        lines.append(say("the launcher did not send it: it ended the others, and only after this"))
    if crash.signal in (SIGSEGV, SIGBUS):
        lines.append(say("a crash in native code: the Python line is in faulthandler's output, if it was on"))
    if stall is not None and stall.call is not None:
        lines.append(
            say(
                "{waiters:who} {waiters:waits|wait} in {operation} for it",
                waiters=stall.waiters,
                operation=operation_of(stall.call),
            )
        )
    echoes = [t for t in facts.tracebacks if t.rank is not None and t.rank not in ranks]
    if echoes:
        lines.append(say("{count} exception(s) on other ranks only say that a partner is gone", count=len(echoes)))
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
        return remedy("exit-on-thread-exception")
    return remedy("fix-rank-exception", exception=crash.exception or "the error")


def _consequences(facts: Facts, ranks: tuple[int, ...], stall: Stall | None) -> tuple[Consequence, ...]:
    echoes = {t.rank for t in facts.tracebacks if t.rank is not None} - set(ranks)
    fallen = {r.rank for r in facts.ranks.values() if r.exit is not None and r.exit.terminated_by_launcher} - set(ranks)
    waiting = set(stall.waiters) if stall is not None else set()
    affected = tuple(sorted(echoes | fallen | waiting))
    if not affected:
        return ()
    return (
        Consequence(
            Cause.RANK_CRASHED,
            affected,
            len(affected),
            say("{ranks:who} waited for it, timed out or were ended by the launcher", ranks=affected),
        ),
    )


def _swallowed_exception(facts: Facts, stall: Stall, ranks: tuple[int, ...]) -> Signal:
    return stall_signal(
        CAUSE,
        Grade.SOURCE,
        say("{ranks:who} caught an exception and went on alone; the others wait for it", ranks=ranks),
        facts,
        stall,
        whole=False,  # the exception itself was not seen
        ranks=ranks,
        because=(say("{ranks:who} {ranks:stands|stand} inside an except block", ranks=ranks),),
        evidence=tuple(quote for rank in ranks for quote in quote_rank(facts.ranks[rank])),
        remedies=(remedy("reraise-handled-exception"),),
    )
