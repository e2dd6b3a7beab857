"""Work of one rank that went on for as long as the others were allowed to wait: a bar that spans the limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unhang.evidence.items import LogEvent, Progress
from unhang.facts.logs.event_timing import is_preparing, is_training
from unhang.facts.logs.waits_in_logs import LoggedWaits, logged_waits
from unhang.facts.model import Facts
from unhang.findings import Evidence, Source
from unhang.knowledge.thresholds import threshold, whole_threshold

# torch's own limits: NCCL since 2.2, and every other backend or older NCCL.
DEFAULT_LIMITS_S = (600.0, 1800.0)
EARLY_S = threshold("work_spanning_timeout.early_s")
LATE = threshold("work_spanning_timeout.late")
HALF = threshold("work_spanning_timeout.half")
"""Of the limit, by the bar's own clock: younger bars began while the others already waited."""
_SIDE_BY_SIDE = whole_threshold("work_spanning_timeout.side_by_side")


@dataclass(frozen=True, slots=True)
class SpanningWork:
    """``label`` had run for ``elapsed_s``, about ``limit_s``, and was not done."""

    rank: int | None
    host: str | None
    label: str
    done: int
    total: int
    elapsed_s: float
    limit_s: float
    limit_seen: bool
    """The limit was printed; else it is torch's default."""
    evidence: Evidence
    waiters: tuple[int, ...]


def spanning_work(facts: Facts) -> SpanningWork | None:
    """The unfinished bar whose own clock stands at the limit of the others; None when there is none."""
    logged = logged_waits(facts)
    if logged is None and not facts.tracebacks:
        return None
    seen = logged.limits if logged is not None else ()
    found = []
    for log in facts.logs:
        ready = tuple(filter(_is_done, log.progress))
        for progress in log.progress:
            for work in ((progress,), (*_done_before(progress, ready), progress)):
                limit = _spanned(work, seen or DEFAULT_LIMITS_S) or _counted_through(facts, progress, seen)
                if limit is not None and not _everybody_counts(facts, progress, logged):
                    found.append((work, limit))
    if not found:
        return None
    work, limit = max(found, key=lambda item: item[0][-1].last_line)
    progress = work[-1]
    rank = progress.rank if progress.rank is not None else absent_rank(facts, logged)
    assert progress.total is not None
    return SpanningWork(
        rank=rank,
        host=None,
        label=", ".join(bar.label for bar in work),
        done=progress.last_step,
        total=progress.total,
        elapsed_s=_elapsed_s(work),
        limit_s=limit,
        limit_seen=bool(seen),
        evidence=Evidence(Source(progress.source.path, progress.last_line), progress.last_text, progress.rank),
        waiters=logged.ranks if logged is not None else (),
    )


def unfinished_work(facts: Facts) -> Progress | None:
    """The last bar of preparing work that was not done and that no rank that gave up waiting shows."""
    logged = logged_waits(facts)
    bars = [
        bar
        for log in facts.logs
        for bar in log.progress
        if bar.label != "bar" and bar.total is not None and 0 < bar.last_step < bar.total and bar.elapsed_s is not None
        if not (is_training(bar) and not is_preparing(bar)) and not _everybody_counts(facts, bar, logged)
    ]
    return max(bars, key=lambda bar: bar.last_line, default=None)


def _done_before(progress: Progress, bars: Sequence[Progress]) -> tuple[Progress, ...]:
    """Of ``bars``, which are done, those of the same speaker and attempt: its work is all of them."""
    first = progress.source.line or 0
    return tuple(
        bar for bar in bars if (bar.rank, bar.attempt) == (progress.rank, progress.attempt) and bar.last_line <= first
    )


def _is_done(bar: Progress) -> bool:
    ended = bar.elapsed_s is not None and bar.total is not None and bar.last_step >= bar.total
    return ended and bar.label != "bar" and is_preparing(bar)


def _elapsed_s(work: Sequence[Progress]) -> float:
    return sum(bar.elapsed_s or 0.0 for bar in work)


def _spanned(work: Sequence[Progress], limits: tuple[float, ...]) -> float | None:
    progress = work[-1]
    if progress.total is None or progress.elapsed_s is None or progress.last_step >= progress.total:
        return None
    if progress.label == "bar" or (is_training(progress) and not is_preparing(progress)):
        return None
    return next((s for s in limits if s - EARLY_S <= _elapsed_s(work) <= s * LATE and s > 2 * EARLY_S), None)


def _counted_through(facts: Facts, progress: Progress, limits: tuple[float, ...]) -> float | None:
    """The limit that the others' wait had when it passed in the middle of this bar, which counted on behind it."""
    if progress.total is None or progress.last_step <= progress.first_step or not limits:
        return None
    if progress.label == "bar" or (is_training(progress) and not is_preparing(progress)):
        return None
    gave_up = [event.source.line or 0 for event in facts.events_of("wd.timeout") if _same_log(event, progress)]
    through = bool(gave_up) and (progress.source.line or 0) < min(gave_up) <= max(gave_up) <= progress.last_line
    return limits[0] if through and (progress.elapsed_s or 0.0) >= limits[0] * HALF else None


def _same_log(event: LogEvent, progress: Progress) -> bool:
    return event.source.path == progress.source.path and event.attempt == progress.attempt


def _is_from_several_ranks(progress: Progress) -> bool:
    """Nobody's bar, three times the same on lines that follow each other: the ranks' prefixes were lost."""
    between = progress.last_line - (progress.source.line or progress.last_line)
    return progress.rank is None and len(progress.recent) == 1 and 2 <= between <= _SIDE_BY_SIDE


def _everybody_counts(facts: Facts, progress: Progress, logged: LoggedWaits | None) -> bool:
    """A rank that gave up waiting shows the same bar: it is work of all, and not what the others waited for."""
    waiters = set(logged.ranks) if logged is not None else set()
    return _is_from_several_ranks(progress) or any(
        other.label == progress.label and other.rank in waiters and other.last_step > 0
        for log in facts.logs
        for other in log.progress
        if other.rank is not None
    )


def absent_rank(facts: Facts, logged: LoggedWaits | None) -> int | None:
    """The one rank that did not give up, or the one the others name; None when it is unknown."""
    if logged is None:
        return None
    named = {w.awaited for w in logged.waits if w.awaited is not None}
    if len(named) == 1:
        return named.pop()
    if facts.world_size is not None:
        left = set(range(facts.world_size)) - set(logged.ranks)
        return left.pop() if len(left) == 1 else None
    reported = set(logged.ranks)
    return 0 if reported and 0 not in reported else None
