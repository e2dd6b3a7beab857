"""Whose line a statement is, where whoever reported it did not say: the ranks that make it or that it is about."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from unhang.evidence.items import LogEvent
from unhang.facts.endings.traceback_echoes import is_echo
from unhang.facts.evidence_quotes import exception_source
from unhang.facts.logs.log_statements import events_stating, first_attempt
from unhang.facts.model import Facts
from unhang.findings import Evidence, Source
from unhang.knowledge.messages import message_row

_OF_WAITERS = frozenset(
    ("timeout", "store-timeout", "peer-gone", "peer-error", "waiting", "stuck", "aborted", "async-error", "echo")
)
"""Statements of those who wait for somebody: they do not tell for whom."""
_NAMING = ("rank", "ranks", "a_rank", "b_rank")
"""Values of a message that are the ranks it is about."""


def reporting_ranks(facts: Facts, evidence: Iterable[Evidence]) -> tuple[int, ...]:
    """The ranks that say what ``evidence`` says or that it is about; of nobody's lines, the one rank that failed."""
    first = next(iter(evidence), None)
    if first is None:
        return ()
    events = tuple(e for e in facts.events if _is_at(e.source, first.source))
    raised = tuple(t for t in facts.tracebacks if _is_at(exception_source(t), first.source))
    if any(is_echo(t) for t in raised) or any(message_row(e.kind).says in _OF_WAITERS for e in events):
        return ()
    alike = events_stating(facts, *{message_row(event.kind).says for event in events})
    told = _ranks_of_events(facts, (*events, *alike))
    if first.rank is not None and not told:
        told.add(first.rank)
    if is_whole_job(facts, told):
        told = _ranks_of_events(facts, events)  # everybody says it: the first to do so
    failed = _only_failed(facts) if events or raised else None
    if failed is not None and (not told or failed in told):
        return (failed,)
    return tuple(sorted(told))


def ranks_named(facts: Facts, evidence: Iterable[Evidence]) -> tuple[int, ...]:
    """The ranks that the first line of ``evidence`` and all of its kind are about, by their own words."""
    first = next(iter(evidence), None)
    kinds = {e.kind for e in facts.events if first is not None and _is_at(e.source, first.source)}
    events = first_attempt(event for event in facts.events if event.kind in kinds)
    return tuple(sorted({rank for event in events for rank in _ranks_named_in(event)}))


def is_whole_job(facts: Facts, ranks: Collection[int]) -> bool:
    """Whether ``ranks`` are more than one, and all that there are as far as anything tells."""
    return len(ranks) > 1 and len(ranks) >= (facts.world_size or max(*facts.ranks, *ranks) + 1)


def _is_at(source: Source, place: Source) -> bool:
    return (source.path, source.line) == (place.path, place.line)


def _ranks_of_events(facts: Facts, events: Iterable[LogEvent]) -> set[int]:
    return {
        rank for event in events for rank in _ranks_of(event) if facts.world_size is None or rank < facts.world_size
    }


def _ranks_of(event: LogEvent) -> set[int]:
    return _ranks_named_in(event) or ({event.rank} if event.rank is not None else set())


def _ranks_named_in(event: LogEvent) -> set[int]:
    values = [event.values.get(name) for name in _NAMING]
    named = {rank for value in values for rank in (value if isinstance(value, tuple) else (value,))}
    return {rank for rank in named if isinstance(rank, int)}


def _only_failed(facts: Facts) -> int | None:
    """The one rank whose process ended badly by itself, as the launcher tells; None where several did, or nobody."""
    ended = [e for e in facts.exits if e.exit_code not in (0, None) and not e.terminated_by_launcher]
    first = [e.rank for e in ended if e.attempt == min(e.attempt for e in ended)]
    return first[0] if first and len({*first}) == 1 else None
