"""Whether a process failed first and of itself: what may have come before it, and what its error names."""

from __future__ import annotations

from unhang.evidence.items import LogEvent, PythonTraceback
from unhang.facts.endings.crashes import Crash, first_timeouts
from unhang.facts.endings.failure_kinds import cause_of_messages, cause_of_text, is_store_port
from unhang.facts.endings.first_timeouts import TimeoutOrder
from unhang.facts.endings.stated_failures import defers_to_other_failure
from unhang.facts.endings.traceback_echoes import asked_another_world, is_echo
from unhang.facts.logs.log_statements import field_text, first_attempt
from unhang.facts.model import Facts
from unhang.findings import Cause


def may_follow_from_others(facts: Facts, crash: Crash, *, awaited: bool) -> bool:
    """What would tell that another process failed first is missing. ``awaited``: others are seen waiting for it."""
    if crash.signal is None and (not crash.exception or _is_cut(crash.message)):
        return True  # what it died of, or the rest of what it said, stands in no line that was read
    if crash.signal is None and first_timeouts(facts).reported_by(crash.rank, crash.attempt):
        return True  # its process was there when the limit passed, and may have caught what it raised before
    if crash.signal is None and crash.exit_code is None and _has_lost_its_frames(facts, crash):
        return True  # where it was raised would tell whether it is one that is handled again and again
    if crash.when is TimeoutOrder.UNKNOWN or _in_a_line_with_others(facts, crash):
        return True
    alone = len(facts.ranks) == 1 and (facts.world_size or 1) > 1
    return alone and not awaited and crash.signal is None


def _has_lost_its_frames(facts: Facts, crash: Crash) -> bool:
    """A traceback of which no frame could be read."""
    told = (crash.rank, crash.attempt, crash.exception, crash.message)
    raised = [
        trace for trace in facts.tracebacks if (trace.rank, trace.attempt, trace.exception, trace.message) == told
    ]
    return bool(raised) and not any(trace.frames for trace in raised)


def _is_cut(message: str) -> bool:
    return not message.strip() or message.count("[") > message.count("]")


def _in_a_line_with_others(facts: Facts, crash: Crash) -> bool:
    """Line breaks were lost: what stands in one line with a timeout may have come before it or after it."""
    place = crash.evidence.source
    events = (event.source for event in facts.events_of("wd.", "hb.", "gloo.to", "te."))
    others = (trace.source for trace in facts.tracebacks if trace.message != crash.message)
    return any((one.path, one.line) == (place.path, place.line) for one in (*events, *others))


def names_its_cause(crash: Crash, facts: Facts) -> bool:
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


def bare_exceptions(facts: Facts) -> tuple[LogEvent, ...]:
    """Last lines of tracebacks that a paste left out; not those that only say that a partner is gone."""
    if facts.tracebacks:
        return ()
    found = []
    for event in first_attempt(facts.events_of("py.error")):
        exception, message = field_text(event, "exception"), field_text(event, "error")
        alone = PythonTraceback(event.source, event.rank, event.time_s, exception, message, ())
        if (
            not is_echo(alone)
            and not asked_another_world(alone, facts.beside)
            and cause_of_text(f"{exception}: {message}") is None
        ):
            found.append(event)
    return tuple(found)
