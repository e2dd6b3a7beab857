"""rank-crashed: in logs alone: a rank that the others' errors say is gone.

What happens: a waiter asked rank 0's store for its part, and the connection was closed instead of timing out.
Why it hangs: the process that hosts the store has ended; whoever needs it fails one after the other.
Example: `[1] is setting up NCCL communicator … store->get('0') got error: Connection reset by peer`.
Fix: read the log of the rank that is gone: its own exception is the cause.
Certain when: never; how it ended is not in these lines.
Possible when: the connection broke although its process may live (a proxy, a firewall).
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.wording.log_signal import log_signal
from unhang.evidence.items import LogEvent, PythonTraceback
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.endings.failure_kinds import cause_of_text
from unhang.facts.endings.traceback_echoes import is_echo
from unhang.facts.logs.log_statements import field_text, first_attempt, ranks_of_events, short_message
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.machine.xids import KIND, is_of_another_job
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade, shortened
from unhang.knowledge.hardware.xid import xid_row
from unhang.knowledge.remedies import remedy
from unhang.sentences import say

CAUSE = Cause.RANK_CRASHED


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """A named partner that is gone; a device error that only a kernel of the program causes."""
    if primary_crashes(facts):
        return
    kernel = first_attempt(facts.events_of("cuda.assert", "cuda.illegal", "cuda.fork")) or _program_xids(facts)
    if kernel:
        ranks = ranks_of_events(kernel)
        yield log_signal(
            CAUSE,
            Grade.STATED,
            say("a kernel of the program failed on {ranks:who}: {error}", ranks=ranks, error=short_message(kernel[0]))
            if ranks
            else say("a kernel of the program failed: {error}", error=short_message(kernel[0])),
            kernel,
            "find-failing-kernel-launch",
            whole=False,  # the exception that ended the process was not read
            because=(say("such an error comes from an index or address of the program; the others' timeouts follow"),),
        )
        return
    bare = _bare_exceptions(facts)
    if bare:
        yield _bare(bare)
        return
    died = first_attempt(facts.events_of("ray.died"))
    if died:
        yield _reported_dead(died)
        return
    logged = logged_waits(facts)
    gone = [w for w in logged.waits if w.partner_gone and w.awaited is not None] if logged is not None else []
    if gone:
        awaited = tuple(sorted({w.awaited for w in gone if w.awaited is not None}))
        yield make_signal(
            CAUSE,
            Grade.ORDER,
            say("{awaited:who} had ended when the others asked it for the first collective", awaited=awaited),
            ranks=awaited,
            because=(
                say("the connection was closed; a rank that is only slow lets the wait time out"),
                say("its own log holds the exception; it was not given")
                if not _was_read(facts, awaited)
                else say("its own log does not show why"),
            ),
            evidence=tuple(w.evidence for w in gone[:3]),
            remedies=(remedy("read-rank-logs", ranks=awaited),),
        )


def _reported_dead(died: tuple[LogEvent, ...]) -> DetectorResult:
    return log_signal(
        CAUSE,
        Grade.STATED,
        say("the launcher says that a worker process died; what it lists as reasons are guesses of its own"),
        died,
        "find-worker-exit-reason",
        whole=False,
        because=(say("no exception of the program was read; what other ranks report follows from it"),),
    )


def _program_xids(facts: Facts) -> tuple[LogEvent, ...]:
    """Driver events that a kernel of the program causes, when the driver reports no fault of the card."""
    events = first_attempt(e for e in facts.events_of(KIND) if not is_of_another_job(facts, e))
    rows = [xid_row(e.values["xid"]) if isinstance(e.values.get("xid"), int) else None for e in events]
    if any(row is not None and row.kind in ("gpu", "link") for row in rows):
        return ()
    return tuple(e for e, row in zip(events, rows, strict=True) if row is not None and row.kind == "program")


def _bare_exceptions(facts: Facts) -> tuple[LogEvent, ...]:
    """Last lines of tracebacks that a paste left out; not those that only say that a partner is gone."""
    if facts.tracebacks:
        return ()
    found = []
    for event in first_attempt(facts.events_of("py.error")):
        exception, message = field_text(event, "exception"), field_text(event, "error")
        alone = PythonTraceback(event.source, event.rank, event.time_s, exception, message, ())
        if not is_echo(alone) and cause_of_text(f"{exception}: {message}") is None:
            found.append(event)
    return tuple(found)


def _bare(events: tuple[LogEvent, ...]) -> DetectorResult:
    ranks = ranks_of_events(events[:1])
    exception, message = field_text(events[0], "exception"), shortened(field_text(events[0], "error"), 100)
    return log_signal(
        CAUSE,
        Grade.STATED,
        say("{ranks:who} ended with {exception}: {message}", ranks=ranks, exception=exception, message=message)
        if ranks
        else say("a process ended with {exception}: {message}", exception=exception, message=message),
        events,
        whole=False,
        ranks=ranks,
        because=(say("it is the last line of a traceback; the lines above it name the place"),),
        remedies=(remedy("read-rank-logs", ranks=ranks),) if ranks else (),
    )


def _was_read(facts: Facts, ranks: tuple[int, ...]) -> bool:
    return any(log.rank in ranks for log in facts.logs)
