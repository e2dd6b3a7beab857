"""unknown: in logs alone: ranks timed out, libraries complain or steps slow down, and nothing read tells why.

What happens: a paste holds one watchdog line, or those of some ranks at one position; or a report names the ranks that
did not come and not what they did; or connections were closed, NCCL reported an error, a watchdog was blocked, and no
exception tells more; or nothing is stuck, and the steps take longer and longer; or a person ended the job
before any limit, by Ctrl-C or SIGTERM, while the ranks were in their first collective or printed nothing.
Why it hangs: somebody did not come to that call, or nobody's transfer ended; the line is the same for both. What others
saw of a process that ended or froze first is an echo. Where all ranks had joined and none finished, nothing carries the
bytes.
Example: one line `Watchdog caught collective operation timeout: WorkNCCL(… NumelIn=262675456, NumelOut=1050701824 …)`;
`Rank 3 failed to pass monitoredBarrier in 30000 ms`; `Call to recv failed : Connection reset by peer` on two nodes.
Fix: collect the other ranks' logs, dumps and stacks, and look before you end the job (`unhang attach`); then ask again.
Certain when: never; it is the honest answer.
Possible when: always: the limit, the operation and the moment the stall began are known, the cause is not. *Likely* is
only that named ranks are late, that steps slow down, or that the transport stalls what all had joined.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, Signal, make_signal
from unhang.causes.wording.logged_timeouts import who_timed_out
from unhang.causes.wording.next_steps import inspect_all, inspect_ranks
from unhang.causes.wording.pace_reasons import slowdown_text
from unhang.causes.wording.signals import log_signal
from unhang.evidence.items import LogEvent
from unhang.facts.endings.ended_from_outside import ended_by_user, ended_from_outside, is_interrupt
from unhang.facts.logs.log_statements import events_stating, first_attempt, ranks_of_events
from unhang.facts.logs.waits_in_logs import LoggedWaits, logged_waits, reported_missing_ranks
from unhang.facts.machine.ambiguous_errors import unexplained_usage_errors
from unhang.facts.machine.transport_errors import transport_errors
from unhang.facts.model import Facts
from unhang.facts.pace.step_slowdown import step_slowdown
from unhang.findings import Call, Cause, Ending, Grade, Severity
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text, message_of_line

CAUSE = Cause.UNKNOWN
tell = Sentences("causes/unknown.toml")
_ERRORS_OF_LIBRARIES = ("async-error", "nccl-error", "aborted", "cuda-error", "call-path", "warning")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """What the lines tell where neither dumps nor stacks say who waits for whom, or who had come to a call."""
    yield from _ended_by_hand(facts)
    yield from _ended_in_silence(facts)
    yield from _logs_alone(facts)


def _logs_alone(facts: Facts) -> Iterator[Signal]:
    """The most telling of the lines."""
    if facts.stalls:
        return
    late = _reported_missing(facts)
    if late is not None:
        yield late
    if facts.all_joined_stalls:
        return
    for look in (_timeouts, _complaints, _slower_steps):
        told = look(facts)
        if told is not None:
            yield told
            return


def _reported_missing(facts: Facts) -> Signal | None:
    """A monitored barrier or the desync debug mode lists the ranks that never reached the call."""
    late = reported_missing_ranks(facts)
    if late is None:
        return None
    most = len(late.ranks) * 2 > (facts.world_size or max(late.ranks) + 1)
    return make_signal(
        Grade.ORDER,
        tell("did-not-come", ranks=late.ranks, told_by=late.source_kind),
        whole=not most,  # then the few that came may be the odd ones
        ranks=late.ranks,
        because=(tell("counted"),),
        evidence=late.evidence,
        remedies=inspect_ranks(facts, late.ranks),
    )


def _timeouts(facts: Facts) -> Signal | None:
    """Ranks timed out; the limit and the moment the stall began are known."""
    logged = logged_waits(facts)
    if logged is None:
        return None
    return make_signal(
        Grade.ORDER,
        _who_timed_out_alone(facts, logged),
        whole=False,
        calls=tuple(
            Call((w.rank,) if w.rank is not None else (), w.operation, w.position, w.elements)
            for w in logged.waits[:8]
            if w.operation
        ),
        because=tuple(_known(facts, logged)),
        evidence=tuple(w.evidence for w in logged.waits[:3]),
        remedies=inspect_all(facts),
    )


def _who_timed_out_alone(facts: Facts, logged: LoggedWaits) -> Text:
    """Who, and which rank that speaks in the log did not."""
    waits = who_timed_out(facts, logged)
    others = tuple(sorted(set(facts.ranks_seen) - logged.rank_set))
    return tell("no-timeout", waits=waits, ranks=others) if logged.ranks and len(others) == 1 else waits


def _known(facts: Facts, logged: LoggedWaits) -> Iterator[Text]:
    below = set(range(max(logged.ranks, default=0)))
    if absent := below.difference(facts.ranks_seen):
        yield tell("others-not-here", ranks=tuple(sorted(absent)))
    if len({wait.group for wait in logged.waits}) > 1:
        yield tell("groups-differ")
    elif below and below <= logged.rank_set:
        yield from map(tell, ("nobody-behind", "kernel-before"))
    for limit in logged.limits[:2]:
        yield tell("limit", limit=limit)
    if facts.world_size is not None:
        yield tell("ranks-read", count=facts.world_size, seen=len(facts.ranks_seen))
    if any(w.barrier and w.operation for w in logged.waits):
        yield tell("barrier")


def _complaints(facts: Facts) -> Signal | None:
    """The first kind of complaint that is there."""
    trouble = transport_errors(facts)
    if trouble is not None and trouble.one_peer is not None:
        return _complaint(trouble.events, tell("one-peer", peer=trouble.one_peer))
    if usage := unexplained_usage_errors(facts):
        return log_signal(
            Grade.WORDS, tell("invalid-usage"), usage, "print-nccl-warnings", because=(tell("usage-means"),)
        )
    said = {
        "different-amounts": first_attempt(facts.events_of("n.truncated")),
        "watchdog-blocked": events_stating(facts, "stuck", "gil"),
        "connections-failed": events_stating(facts, "peer-gone", "network", "connect"),
        "library-error": events_stating(facts, *_ERRORS_OF_LIBRARIES),
        "waited-too-long": events_stating(facts, "waiting", "timeout"),
        "inside-nccl": facts.events_of("look.native"),
    }
    name = next((name for name, events in said.items() if events), None)
    if name is None:
        return None
    events = said[name]
    if name == "library-error":
        return _complaint(events, tell("unexplained-error", words=message_of_line(events[0].text.strip(), 120)))
    ranks = ranks_of_events(events)[:1] if name == "watchdog-blocked" else ()
    return _complaint(events, tell("its-watchdog-blocked", ranks=ranks) if ranks else tell(name), ranks)


def _complaint(events: tuple[LogEvent, ...], summary: Text, ranks: tuple[int, ...] = ()) -> Signal:
    return log_signal(Grade.WORDS, summary, events, "collect-all-logs", ranks=ranks, because=(tell("echo"),))


def _slower_steps(facts: Facts) -> Signal | None:
    """Nobody waits in vain, and the time between two step lines grows."""
    growing = step_slowdown(facts)
    if growing is None:
        return None
    return make_signal(
        Grade.ORDER,
        slowdown_text(growing),
        severity=Severity.SLOWS,
        because=(tell("stays-slow", label=growing.label),),
        evidence=(growing.evidence,),
        remedies=(remedy("profile-growing-step-time"),),
    )


def _ended_by_hand(facts: Facts) -> Iterator[Signal]:
    """Who had come to the first collective when somebody ended it; no limit had passed, so no rank complains."""
    ended = ended_by_user(facts)
    if ended is None or not ended.joined:
        return
    yield make_signal(
        Grade.ORDER,
        tell(
            "by-hand-all" if ended.all_joined else "never-came" if ended.never_came else "by-hand",
            ranks=ended.joined,
            count=len(ended.joined),
            operation=ended.operation,
            late=ended.missing,
        ),
        whole=ended.all_joined,
        ending=Ending.FROM_OUTSIDE,
        ranks=ended.missing if ended.never_came else (),
        because=(
            tell(
                "nobody-behind" if ended.all_joined else "prints-on-entry" if ended.never_came else "not-heard",
                ranks=ended.missing,
            ),
            tell("before-it" if ended.silent_s is None else "silent-before-it", seconds=ended.silent_s),
        ),
        evidence=ended.evidence,
        remedies=(*((remedy("check-kernel-nccl-logs"),) if ended.all_joined else ()), remedy("watch-before-ending")),
    )


def _ended_in_silence(facts: Facts) -> Iterator[Signal]:
    """A launcher was told to end, and its ranks may have been stuck."""
    ended = ended_from_outside(facts)
    if ended is None or not ended.may_have_been_stuck:
        return
    told = {"seconds": ended.silent_s, "how": "Ctrl-C" if is_interrupt(ended.events[0]) else "SIGTERM"}
    speaker = ended.last.rank if ended.last is not None and ended.silent_s is not None else None
    yield log_signal(
        Grade.ORDER,
        tell("ended-by-hand" if ended.silent_s is None else "silent-then-ended", **told),
        ended.events,
        "watch-before-ending",
        whole=False,
        ending=Ending.FROM_OUTSIDE,
        because=(*((tell("spoke-last", rank=speaker, **told),) if speaker is not None else ()), tell("may-be-stuck")),
        more_evidence=(ended.last,) if ended.last is not None else (),
        ranks=(),
    )
