"""What a stall looks like, in the features that known incidents are counted by (``knowledge/known_incidents``).

Nothing here decides: each feature is something anybody could tick off when reading the log. Names are stable, since
the counts of known incidents are kept under them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from unhang.evidence.items import LastLine
from unhang.facts.endings.stated_failures import stated_failures
from unhang.facts.laggard.work_in_lines import DEFAULT_LIMITS_S, absent_rank
from unhang.facts.logs.event_timing import steps_were_made
from unhang.facts.logs.waits_in_logs import LoggedWaits, logged_waits
from unhang.facts.model import Facts, once
from unhang.knowledge import numbers
from unhang.knowledge.messages import message_row
from unhang.knowledge.reasoning_rows import feature_rows
from unhang.knowledge.thresholds import whole_threshold
from unhang.late_pattern import late_pattern

FIRST_POSITIONS, EARLY_POSITIONS = 3, 100
"""Positions up to these are the first collectives of a group, and those of its first steps."""
NEAR_LINES = 6
INNERMOST = 3
BUSY = whole_threshold("incident_features.busy")
"""Per cent: a card that spins in a collective shows nearly all of them."""


@once
def incident_features(facts: Facts) -> frozenset[str]:
    """The features of what was read; the same for every order of files."""
    logged = logged_waits(facts)
    found = set(_features_of_waits(facts, logged)) if logged is not None else set()
    found |= {
        *_features_of_snapshots(facts),
        *_features_of_lines(facts),
        *_features_of_messages(facts),
        *_features_of_failures(facts),
        *_features_of_exits(facts),
        *_features_of_environment(facts),
    }
    return frozenset(found)


def _features_of_waits(facts: Facts, logged: LoggedWaits) -> Iterator[str]:
    """Who gave up waiting, in what, and who did not."""
    yield "timeout"
    operations = Counter(wait.operation or "store" for wait in logged.waits)
    yield f"op:{max(sorted(operations), key=operations.__getitem__)}"
    if any(wait.barrier for wait in logged.waits):
        yield "barrier"
    positions = sorted({wait.position for wait in logged.waits if wait.position is not None})
    if positions:
        first = positions[0]
        yield "pos:first" if first <= FIRST_POSITIONS else "pos:early" if first < EARLY_POSITIONS else "pos:late"
    if len(positions) > 1:
        yield "pos:differ"
    absent = absent_rank(facts, logged)
    yield "absent:none" if absent is None else "absent:0" if absent == 0 else "absent:other"
    if logged.limits:
        yield f"limit:{logged.limits[0]:g}" if logged.limits[0] in DEFAULT_LIMITS_S else "limit:other"


def _features_of_snapshots(facts: Facts) -> Iterator[str]:
    """What somebody pasted beside the log because the job stood."""
    busy = [numbers.integer(str(event.values.get("percent", ""))) for event in facts.events_of("look.gpuuse")]
    if busy:
        spins = all(isinstance(percent, int) and percent >= BUSY for percent in busy)
        yield "look:cards-busy" if spins else "look:cards"
    if facts.unattributed_stacks:
        yield "look:stacks"


def was_seen_stuck(facts: Facts) -> bool:
    """Cards or stacks were pasted beside the log, or a line says that the job is stuck."""
    return bool(incident_features(facts) & {"look:cards-busy", "look:cards", "look:stacks", "ever:stand"})


def _features_of_lines(facts: Facts) -> Iterator[str]:
    """What the job's ordinary lines spoke of, at last and before."""
    said = [line for log in facts.logs for line in log.said]
    spoken = [works for line in reversed(said) if (works := _works_in(line))]
    if spoken:
        yield from (f"last:{work}" for work in spoken[0])
        yield from (f"near:{works[0]}" for works in spoken[:NEAR_LINES])
    ever = {work for works in spoken for work in works}
    yield from (f"ever:{work}" for work in ever)
    if "step" not in ever and not steps_were_made(facts):
        yield "no-steps"
    speakers = {line.rank for line in said if line.rank is not None}
    yield "speakers:many" if len(speakers) > 1 else "speakers:one"


def _works_in(line: LastLine) -> tuple[str, ...]:
    text = line.text[:500]
    return tuple(work for work, pattern in _work() if pattern.search(text))


def _features_of_messages(facts: Facts) -> Iterator[str]:
    for kind in {event.kind for event in facts.events}:
        row = message_row(kind)
        yield f"says:{row.says}:benign" if row.benign else f"says:{row.says}"


def _features_of_failures(facts: Facts) -> Iterator[str]:
    """What lines say of failures in general words, also where the words mean several things."""
    for failure in stated_failures(facts):
        yield from (f"words:{cause.value}" for cause in (failure.cause, failure.also) if cause is not None)


def _features_of_exits(facts: Facts) -> Iterator[str]:
    for traceback in facts.tracebacks:
        yield f"exc:{traceback.exception.rsplit('.', 1)[-1]}"
        yield from (f"in:{frame.function}" for frame in traceback.frames[:INNERMOST])
    codes = {end.exit_code for end in facts.exits}
    yield from (f"exit:{code}" for code in codes)
    yield "crash" if any(codes) else "no-exit"


def _features_of_environment(facts: Facts) -> Iterator[str]:
    """Programs, ways and cards that are spoken of anywhere."""
    texts = "\n".join(
        (
            *(line.text[:500] for log in facts.logs for line in log.said),
            *(event.text[:500] for event in facts.events[:2000]),
            *(f"{t.exception} {t.message[:1000]}" for t in facts.tracebacks[:200]),
            *(frame.file for t in facts.tracebacks[:200] for frame in t.frames),
        )
    )
    low = texts.lower()
    yield from (f"with:{name}" for name, pattern in _programs() if name in low and pattern.search(texts))


@cache
def _work() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, late_pattern(words, re.IGNORECASE)) for name, words in feature_rows().work.items())


@cache
def _programs() -> tuple[tuple[str, re.Pattern[str]], ...]:
    names = feature_rows().programs
    return tuple((name, late_pattern(rf"(?<![a-z]){name}(?![a-z])", re.IGNORECASE)) for name in names)
