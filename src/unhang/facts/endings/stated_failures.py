"""What was said of a failure in general words: by exceptions, by lines that no table knows, by launchers.

Each is read by :mod:`unhang.knowledge.failure_language`. What only points at another place or process is marked, and so
is what was said after ranks had already waited in vain; what the job went on after is no failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from unhang.evidence.items import LogEvent, LogReading, PythonTraceback
from unhang.facts.endings.crashes import Crash, primary_crashes
from unhang.facts.endings.failure_kinds import cause_of_messages, is_store_port
from unhang.facts.endings.good_endings import good_endings
from unhang.facts.evidence_quotes import quote_line, quote_traceback
from unhang.facts.logs.event_timing import EventTiming, is_preparing, timing_of
from unhang.facts.logs.log_statements import quote_event
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts, once
from unhang.findings import Cause, Evidence, Source, Where
from unhang.knowledge.failure_language import (
    ELSEWHERE,
    HARMLESS,
    NAMES,
    VAGUE,
    FailureStatement,
    find_failure_statement,
    without_counts_of_none,
)
from unhang.knowledge.messages import message_row
from unhang.knowledge.templates.template_rows import ECHO, NOTHING, program_messages
from unhang.late_pattern import late_pattern

_MARK = late_pattern(
    r"\b(?:err(?:or)?|fatal|critical|fail(?:ed|ure|s)?|exception|panic|abort(?:ed|ing)?|cannot|can't|unable|killed)\b"
    r"|[a-z]Error\b|^E\d{4} |^\[E|NCCL WARN|错误|失败|异常",
    re.IGNORECASE,
)
_WARNED = late_pattern(r"(?<!NCCL )\bWARN(?:ING)?\b|\b[Ww]arning: |[a-z]Warning\b|^\W{0,3}W ?\d{4} |\[W\b")
"""A line that calls itself a warning hints at most: healthy jobs are full of them."""
_EXCEPTION = late_pattern(r"\b[A-Z]\w*(?:Error|Exception): ")
_PLAIN = late_pattern(r"\b(?:INFO|DEBUG|TRACE|NOTICE)\b|\[I\b|^I\d{4} ")
"""The line says of itself that it is for information: what it tells stops nothing."""
_UNREAD_KINDS = ("py.error", "n.warn")
"""Rows that know the mark of a line and not what it says."""
_SITUATIONS = {EventTiming.FIRST_USE: "start", EventTiming.RUNNING: "running", EventTiming.UNKNOWN: ""}


@dataclass(frozen=True, slots=True)
class StatedFailure:
    """One failure, told by ``evidence``. ``statement`` is None where a message known by its shape tells it."""

    statement: FailureStatement | None
    cause: Cause | None
    """None for what says of no cause."""
    evidence: Evidence
    rank: int | None
    host: str | None
    time_s: float | None
    attempt: int
    where: Where | None = None
    raised: bool = False
    """An exception that ended its process."""
    marked: bool = True
    """The line itself says that it tells of an error."""
    elsewhere: bool = False
    """It points at another process or an earlier line: that one leads."""
    late: bool = False
    """Ranks had waited in vain before it."""
    by_row: bool = False
    """A message that is a finding by itself."""

    @property
    def also(self) -> Cause | None:
        """Another cause that the same words are said of."""
        return self.statement.row.also if self.statement is not None else None

    @property
    def is_exception(self) -> bool:
        """It ended its process, or a line holds the exception of one whose traceback is not there."""
        return self.raised or _EXCEPTION.search(self.evidence.text) is not None

    @property
    def names_cause(self) -> bool:
        """It says itself what is wrong, in the words of an error that means nothing else."""
        return self.statement is None or (self.marked and not self.late and self.statement.row.strength == NAMES)


def leading_failures(facts: Facts) -> tuple[StatedFailure, ...]:
    """The first failure of each cause that is named outright; where none is, the first that words hint at."""
    own = [f for f in stated_failures(facts) if f.cause and not f.elsewhere and (f.statement or f.by_row)]
    own = [f for f in own if f.marked or has_failed(facts)]
    own = [f for f in own if f.attempt == min(each.attempt for each in own)]
    named = {f.cause: f for f in reversed(own) if f.names_cause}
    if named:
        return tuple(sorted(named.values(), key=own.index))
    return tuple(sorted((f for f in own if not f.late), key=lambda f: not f.marked))[:1]


def has_failed(facts: Facts) -> bool:
    """The job failed or is stuck, by exits, tracebacks, timeouts or stalls, whatever statements in its logs say."""
    ended = any(known.exit is not None and known.exit.exit_code for known in facts.ranks.values())
    return ended or bool(
        facts.tracebacks or facts.stalls or facts.all_joined_stalls or facts.events_of("wd.timeout", "gloo.to")
    )


def last_exception(facts: Facts) -> PythonTraceback | None:
    """The last exception that a log tells of, where nobody counted a step after it in that log."""
    for traceback in reversed(facts.tracebacks):
        line = LogEvent(
            "", traceback.source, traceback.message, traceback.rank, traceback.time_s, attempt=traceback.attempt
        )
        if not traceback.chained and not _steps_continued(line, facts):
            return traceback
    return None


def defers_to_other_failure(crash: Crash, facts: Facts) -> bool:
    """The crash says only that something below it failed, and another line says what."""
    return any(not f.elsewhere and f.cause and f.evidence != crash.evidence for f in stated_failures(facts))


@once
def stated_failures(facts: Facts) -> tuple[StatedFailure, ...]:
    """Everything that tells of a failure, in order of attempt, then as it was said."""
    found = [*_raised(facts), *_failures_in_lines(facts), *_known(facts)]
    one_log = len({failure.evidence.source.path for failure in found}) == 1
    gave_up = _first_timeout_lines(facts)
    return tuple(replace(f, late=_is_late(f, gave_up)) for f in sorted(found, key=lambda f: _order(f, one_log)))


def _raised(facts: Facts) -> Iterator[StatedFailure]:
    for crash in primary_crashes(facts):
        text = f"{crash.exception}: {crash.message}".replace("\n", " ")
        by_shape = crash.is_gpu_out_of_memory or crash.is_host_memory or cause_of_messages(text) is not None
        if by_shape or not crash.message:
            continue
        event = LogEvent(
            "", Source(crash.evidence.source.path, crash.evidence.source.line), text, crash.rank, crash.time_s
        )
        said = find_failure_statement(text, _SITUATIONS[timing_of(facts, event)], raised=True)
        # That a process died of an error of its own is what ``rank-crashed`` says.
        if said is not None and said.row.cause is not Cause.RANK_CRASHED and not _is_other_port(said, facts):
            yield StatedFailure(
                said, said.row.cause, crash.evidence, crash.rank, None, crash.time_s, crash.attempt, crash.where,
                raised=True, elsewhere=said.row.strength in (ELSEWHERE, VAGUE),
            )  # fmt: skip


def _is_other_port(said: FailureStatement, facts: Facts) -> bool:
    return said.row.id == "meet.port" and not is_store_port(facts.tracebacks)


def _failures_in_lines(facts: Facts) -> Iterator[StatedFailure]:
    raised: dict[str, set[str]] = {}
    for each in facts.tracebacks:
        if message := each.message.split("\n")[0]:
            raised.setdefault(each.source.path, set()).add(message[:60])
    lines = [*(line for log in facts.logs for line in log.unrecognized_failures), *facts.events_of(*_UNREAD_KINDS)]
    for line in lines:
        if any(map(line.text.__contains__, raised.get(line.source.path, ()))):
            continue
        if _PLAIN.search(line.text[:160]) or cause_of_messages(line.text) is not None or _steps_continued(line, facts):
            continue
        said = find_failure_statement(line.text, _SITUATIONS[timing_of(facts, line)])
        if said is None or said.row.strength == HARMLESS:
            continue
        printed = {row.kind for row in program_messages(line.text)}
        if printed != {NOTHING} or said.row.cause is None:
            failure = _failure(line, said, said.row.cause)
            yield replace(failure, elsewhere=failure.elsewhere or printed == {ECHO})


def _known(facts: Facts) -> Iterator[StatedFailure]:
    for event in facts.events_where(lambda row: row.cause not in (None, Cause.UNKNOWN)):
        cause = message_row(event.kind).cause
        if not _steps_continued(event, facts):
            yield replace(_failure(event, None, cause), by_row=message_row(event.kind).stated)


def _failure(line: LogEvent, said: FailureStatement | None, cause: Cause | None) -> StatedFailure:
    marked = bool(line.kind) or (_MARK.search(line.text) is not None and _WARNED.search(line.text[:160]) is None)
    elsewhere = said is not None and said.row.strength in (ELSEWHERE, VAGUE)
    return StatedFailure(
        said, cause, quote_event(line), line.rank, line.host, line.time_s, line.attempt,
        marked=marked, elsewhere=elsewhere,
    )  # fmt: skip


def _steps_continued(line: LogEvent, facts: Facts) -> bool:
    """Steps were counted after it by whoever said it."""
    counted = _last_counted(facts)
    path, attempt, at = line.source.path, line.attempt, line.source.line or 0
    if line.rank is None:
        return counted.get((path, attempt, _ANYBODY), 0) > at
    return max(counted.get((path, attempt, rank), 0) for rank in (None, line.rank)) > at


_ANYBODY = -1


@once
def _last_counted(facts: Facts) -> dict[tuple[str, int, int | None], int]:
    """The last line with a step, by path, attempt and rank (and of anybody): many ranks may say many things."""
    found: dict[tuple[str, int, int | None], int] = {}
    for log in facts.logs:
        for progress in log.progress:
            for rank in () if is_preparing(progress) else (progress.rank, _ANYBODY):
                key = (log.source.path, progress.attempt, rank)
                found[key] = max(found.get(key, 0), progress.last_line)
    return found


def _first_timeout_lines(facts: Facts) -> tuple[tuple[str, int, float | None], ...]:
    """(path, line, time) of the first time that a rank waited in vain, in each log."""
    if logged_waits(facts) is None:
        return ()
    first: dict[str, tuple[str, int, float | None]] = {}
    for event in facts.events_of("wd.timeout", "gloo.to"):
        place = (event.source.path, event.source.line or 0, event.time_s)
        first[event.source.path] = min(first.get(event.source.path, place), place, key=lambda each: each[1])
    return tuple(first.values())


def _is_late(failure: StatedFailure, gave_up: Iterable[tuple[str, int, float | None]]) -> bool:
    source = failure.evidence.source
    for path, line, time_s in gave_up:
        if path == source.path:
            if line < (source.line or 0):
                return True
        elif time_s is not None and failure.time_s is not None and time_s < failure.time_s:
            return True
    return False


def _order(failure: StatedFailure, one_log: bool) -> tuple[int, float, str, int]:
    time_s = 0.0 if one_log or failure.time_s is None else failure.time_s
    return failure.attempt, time_s, failure.evidence.source.path, failure.evidence.source.line or 0


@dataclass(frozen=True, slots=True)
class LastWords:
    """``errors``: the last error-like line of each rank, and those whose rank is not known, the latest first. ``last``:
    the last ordinary line, where there is one, from ``end_s``. ``silent``: the rank whose lines end first, at
    ``since_s``, where others go on."""

    errors: tuple[Evidence, ...]
    last: tuple[Evidence, ...]
    end_s: float | None
    silent: int | None
    since_s: float | None


def last_words(facts: Facts) -> LastWords:
    """Of all logs that were read."""
    found = [quote for log in facts.logs for quote in _errors_in(log, facts)]
    errors = {quote.rank if quote.rank is not None else quote.source: quote for quote in found}
    latest = sorted(errors.values(), key=lambda quote: quote.source.line or 0, reverse=True)
    lines = [line for log in facts.logs for line in log.last_lines]
    lines.sort(key=lambda line: (line.time_s or 0.0, line.source.path, line.source.line or 0))
    ends = [(line.time_s, line.rank) for line in lines if line.time_s is not None and line.rank is not None]
    since_s, silent = ends[0] if ends and ends[0][0] < ends[-1][0] else (None, None)
    return LastWords(
        tuple(latest), tuple(map(quote_line, lines[-1:])), lines[-1].time_s if lines else None, silent, since_s
    )


def _errors_in(log: LogReading, facts: Facts) -> Iterator[Evidence]:
    """In the order of the lines; none that the job outlived."""
    ended = good_endings(facts).last.get(log.source.path)
    said = [LogEvent("", line.source, line.text.strip(), line.rank, line.time_s) for line in log.said]
    lines = [line for line in (*said, *log.unrecognized_failures) if _is_open_error(line, facts)]
    quotes = [*map(quote_event, lines), *map(quote_traceback, log.tracebacks)]
    for quote in sorted(quotes, key=lambda quote: quote.source.line or 0):
        if ended is None or (ended.source.line or 0) < (quote.source.line or 0):
            yield quote


def _is_open_error(line: LogEvent, facts: Facts) -> bool:
    """It says itself that it tells of an error, no warning and no information, and nobody counted a step after it."""
    head = line.text[:160]
    if _WARNED.search(head) or _PLAIN.search(head) or not _MARK.search(without_counts_of_none(line.text)):
        return False
    return not _steps_continued(line, facts)
