"""Counts that lines tell of single ranks and that must be equal on all: batches, samples, lengths, steps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from unhang.evidence.items import Progress
from unhang.facts.evidence_quotes import quote_progress
from unhang.facts.logs.log_statements import first_attempt, quote_event
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts
from unhang.findings import Evidence
from unhang.knowledge.thresholds import threshold, whole_threshold
from unhang.sentences import rank_ranges

# Ranks in lockstep print at most one step apart.
LOCKSTEP = whole_threshold("per_rank_counts.lockstep")
# Shards of one data set differ by a little; numbers further apart count different things.
NEAR = threshold("per_rank_counts.near")
SAME_MOMENT_S = whole_threshold("per_rank_counts.same_moment_s")


@dataclass(frozen=True, slots=True)
class UnequalCounts:
    """The same count differs between ranks."""

    what: str
    told: str
    short: tuple[int, ...]
    """Ranks with the smallest number, as far as lines name ranks."""
    announced: bool
    """The length itself was printed; else it is where counters stopped."""
    evidence: tuple[Evidence, ...]
    went_on: bool = False
    """All of them made steps after they had printed it."""


def unequal_counts(facts: Facts) -> UnequalCounts | None:
    """Printed counts, announced totals, then counters that stopped apart; None when they agree."""
    return _printed_counts(facts) or _announced_totals(facts) or _stopped_apart(facts)


def _printed_counts(facts: Facts) -> UnequalCounts | None:
    by_what: dict[str, list[tuple[int | None, int, Evidence]]] = defaultdict(list)
    for event in first_attempt(facts.events_of("run.count", "run.loader_len")):
        count = event.values.get("count")
        if isinstance(count, int):
            named = event.values.get("rank")
            rank = event.rank if event.rank is not None or not isinstance(named, int) else named
            by_what[str(event.values.get("what"))].append((rank, count, quote_event(event)))
    for what, said in sorted(by_what.items()):
        ranks = [rank for rank, _, _ in said]
        # One rank that prints several numbers tells of several epochs, not of several ranks.
        several = len({r for r in ranks if r is not None}) > 1 or (set(ranks) == {None} and _one_wave(said))
        if several and len({count for _, count, _ in said}) > 1:
            least = min(count for _, count, _ in said)
            if max(count for _, count, _ in said) > least * NEAR:
                continue
            short = tuple(sorted({r for r, count, _ in said if count == least and r is not None}))
            told = " and ".join(str(count) for count in sorted({count for _, count, _ in said})[:4])
            evidence = tuple(e for _, _, e in said[:4])
            return UnequalCounts(what, told, short, True, evidence, _steps_continued(facts, said))
    return None


def _steps_continued(facts: Facts, said: list[tuple[int | None, int, Evidence]]) -> bool:
    """Steps were counted behind the last of these lines, by all who said one: it was no loop that parted them."""
    last = {(rank, evidence.source.path): evidence.source.line or 0 for rank, _, evidence in said}
    return all(
        any(
            p.rank == rank and p.source.path == path and p.last_line > line and p.last_step > p.first_step
            for p in log.progress
        )
        for (rank, path), line in last.items()
        for log in facts.logs
        if log.source.path == path
    )


def _one_wave(said: list[tuple[int | None, int, Evidence]]) -> bool:
    """Lines without ranks stand side by side: several processes said it at once."""
    lines = sorted(e.source.line or 0 for _, _, e in said)
    return len(lines) > 1 and lines[-1] - lines[0] <= 2 * len(lines)


def _announced_totals(facts: Facts) -> UnequalCounts | None:
    counts = step_counts(facts)
    if not counts.differ or max(counts.totals.values()) > min(counts.totals.values()) * NEAR:
        return None
    evidence = tuple(
        quote_progress(p)
        for rank in sorted(counts.totals)[:4]
        for p in facts.ranks[rank].progress
        if p.label == counts.label
    )
    return UnequalCounts(counts.label, counts.told, counts.short, True, evidence)


def _stopped_apart(facts: Facts) -> UnequalCounts | None:
    """Several ranks' last line is the same counter, and they stand further apart than lockstep allows.

    Where ranks say in which collective they waited, that tells more than their counters."""
    if logged_waits(facts) is not None:
        return None
    by_label: dict[str, dict[int, Progress]] = defaultdict(dict)
    for rank, known in facts.ranks.items():
        if not known.progress or known.last_line is None:
            continue
        latest = max(known.progress, key=lambda p: p.last_line)
        if (
            latest.last_step > latest.first_step
            and latest.source.path == known.last_line.source.path
            and latest.last_line == known.last_line.source.line
        ):
            by_label[latest.label][rank] = latest
    for label, runs in sorted(by_label.items()):
        steps = {rank: run.last_step for rank, run in runs.items()}
        if len(steps) < 2 or max(steps.values()) - min(steps.values()) <= LOCKSTEP:
            continue
        if not _same_moment(list(runs.values())) or facts.world_size not in (None, len(runs)):
            continue
        least = min(steps.values())
        short = tuple(sorted(rank for rank, step in steps.items() if step == least))
        told = ", ".join(f"rank {rank_ranges([r])}: {steps[r]}" for r in sorted(steps)[:4])
        evidence = tuple(quote_progress(run) for _, run in sorted(runs.items())[:4])
        return UnequalCounts(label, told, short, False, evidence)
    return None


def _same_moment(runs: list[Progress]) -> bool:
    """They stopped together: one that went on for minutes alone was not held by the others."""
    times = [run.last_time_s for run in runs if run.last_time_s is not None]
    return not times or max(times) - min(times) < SAME_MOMENT_S


@dataclass(frozen=True, slots=True)
class StepCounts:
    """``totals``: announced length of the same bar by rank. ``differ``: ranks announced different lengths."""

    totals: dict[int, int]
    label: str

    @property
    def differ(self) -> bool:
        """At least two ranks announced another number of steps."""
        return len(set(self.totals.values())) > 1

    @property
    def told(self) -> str:
        """``rank 1: 997, rank 0, 2: 1000``."""
        by_total: dict[int, list[int]] = defaultdict(list)
        for rank, total in self.totals.items():
            by_total[total].append(rank)
        return ", ".join(f"rank {rank_ranges(ranks)}: {total}" for total, ranks in sorted(by_total.items()))

    @property
    def short(self) -> tuple[int, ...]:
        """Ranks with the smallest announced number."""
        if not self.differ:
            return ()
        least = min(self.totals.values())
        return tuple(sorted(rank for rank, total in self.totals.items() if total == least))


def step_counts(facts: Facts) -> StepCounts:
    """The announced lengths of the loop that most ranks show; empty when fewer than two ranks show one."""
    by_label: dict[str, dict[int, Progress]] = defaultdict(dict)
    counting: set[str] = set()
    for known in facts.ranks.values():
        stood: dict[str, int] = {}
        for progress in known.progress:
            if progress.total is None:
                continue
            by_label[progress.label][known.rank] = progress
            if (
                progress.first_step == progress.last_step
                and stood.setdefault(progress.label, progress.total) != progress.total
            ):
                counting.add(progress.label)  # ``Batch 0/1500``, ``Batch 0/3000``: the epoch, and what it has counted
    for label in counting:
        del by_label[label]
    best = max(sorted(by_label.items()), key=lambda item: (len(item[1]), _spread(item[1])), default=None)
    if best is None or len(best[1]) < 2:
        return StepCounts({}, "")
    return StepCounts({rank: p.total for rank, p in best[1].items() if p.total is not None}, best[0])


def _spread(rows: dict[int, Progress]) -> int:
    return len({p.total for p in rows.values()})
