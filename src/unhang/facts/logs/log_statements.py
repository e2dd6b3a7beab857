"""What log lines say, as questions about the kind of statement instead of the words of one program."""

from __future__ import annotations

import re
from collections.abc import Iterable

from unhang.evidence.items import LogEvent
from unhang.facts.model import Facts
from unhang.findings import Evidence, Source
from unhang.knowledge.numbers import time_text
from unhang.sentences import shortened

MAX_QUOTES = 4
_WAITED_TOO_LONG = ("wd.", "hb.", "gloo.to", "mb.one", "mb.many", "store.wait", "dump.recv", "det.")
_HEAD = re.compile(r"^.*(?:NCCL WARN |terminated with exception: |kernel: |CUDA error: )")
_NUMBERS = re.compile(r"\d+")


def events_stating(facts: Facts, *statements: str) -> tuple[LogEvent, ...]:
    """Events whose message makes one of these statements (``network``, ``shm``, …); never benign ones.

    Only of the first attempt that makes one: what a restarted job prints echoes it.
    """
    wanted = set(statements)
    return first_attempt(facts.events_where(lambda row: row.says in wanted and not row.benign))


def timeout_events(facts: Facts) -> tuple[LogEvent, ...]:
    """Log lines that say that somebody waited for too long.

    torch's watchdog prints most of its lines of any error: where those that name one name another, nobody waited.
    """
    events = facts.events_of(*_WAITED_TOO_LONG)
    errors = [e for e in events if field_text(e, "error")]
    if errors and all(e.kind.startswith("wd.") and _is_of_another_error(e) for e in events):
        return ()
    return events


def _is_of_another_error(event: LogEvent) -> bool:
    return event.kind != "wd.timeout" and "time" not in field_text(event, "error").lower()


def first_attempt(events: Iterable[LogEvent]) -> tuple[LogEvent, ...]:
    """Those of the earliest attempt among ``events``."""
    kept = list(events)
    first = min((e.attempt for e in kept), default=0)
    return tuple(e for e in kept if e.attempt == first)


def quote_event(event: LogEvent) -> Evidence:
    """The line as evidence."""
    time = time_text(event.time_s, event.time_form) if event.time_s is not None else None
    return Evidence(Source(event.source.path, event.source.line), shortened(event.text), event.rank, time or None)


def quote_events(events: Iterable[LogEvent]) -> tuple[Evidence, ...]:
    """A few lines as evidence, none twice: lines that differ in numbers alone are one."""
    kept: dict[tuple[int | None, str], Evidence] = {}
    for event in events:
        kept.setdefault((event.rank, _NUMBERS.sub("#", event.text[:200])), quote_event(event))
        if len(kept) >= MAX_QUOTES:
            break
    return tuple(kept.values())


def short_message(event: LogEvent) -> str:
    """The line without what stands before its message: host, process, file."""
    return shortened(_HEAD.sub("", event.text.strip()), 100).strip()


def ranks_of_events(events: Iterable[LogEvent]) -> tuple[int, ...]:
    """The ranks that spoke these lines, each once."""
    return tuple(sorted({e.rank for e in events if e.rank is not None}))


def hosts_of_events(events: Iterable[LogEvent]) -> tuple[str, ...]:
    """The nodes these lines came from, each once."""
    return tuple(sorted({e.host for e in events if e.host}))


def field_text(event: LogEvent, name: str) -> str:
    """A field of the message as text; empty when the line does not tell it."""
    return str(event.values.get(name, ""))
