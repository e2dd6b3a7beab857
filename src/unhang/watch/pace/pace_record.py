"""What the ranks of a job that moves did in samples of them: who waited how often, and where each stood.

Old samples count less and less, so that what is told is about the last minutes; memory is bounded by the ranks.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from unhang.watch.job.wait_detection import RankSample, is_in_communication
from unhang.wire.documents.pace import Pace, PacePlace, RankPace
from unhang.wire.record_views import CodeLine, RecordView

ENTRIES = 128
"""When so many are full, every two become one: 128 × 24 bytes a rank, however long the job runs."""


@dataclass(slots=True)
class StepHistory:
    """Means over stretches of equal numbers of samples; the last stretch may not be whole."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("q"))
    seconds: array[float] = field(default_factory=lambda: array("d"))
    _width: int = 1
    _open: int = 0
    _open_steps: int = 0
    _open_s: float = 0.0
    _last: tuple[int, int] | None = None

    def note(self, steps: int, last_step_ns: int) -> None:
        """What a record says: ``steps`` done, the last one at ``last_step_ns`` (monotonic)."""
        last = self._last
        if last is None or steps < last[0] or last_step_ns < last[1]:
            if last is not None and steps < last[0]:
                self._clear()  # counted anew: by another source, or in another attempt
            self._last = (steps, last_step_ns)
            return
        if steps == last[0] or last_step_ns <= 0:
            return
        self._last = (steps, last_step_ns)
        if last[1] <= 0:
            return
        self._open += 1
        self._open_steps += steps - last[0]
        self._open_s += (last_step_ns - last[1]) / 1e9
        if self._open >= self._width:
            self._close(steps)

    def told(self) -> Iterator[tuple[int, float]]:
        """(step, mean seconds a step since the entry before), oldest first."""
        yield from zip(self.steps, self.seconds, strict=True)

    def median_s(self) -> float | None:
        """Of all steps, those of one entry counted alike; None before any is known."""
        left = sum(self.counts) / 2
        for seconds, count in sorted(zip(self.seconds, self.counts, strict=True)):
            left -= count
            if left <= 0:
                return seconds
        return None

    def grouped_by(self, calls: int) -> StepHistory:
        """The same stretch of time, where every ``calls`` that were counted here are one step."""
        rounds, count, total_s = StepHistory(_width=self._width), 0, 0.0
        for at, counted, each_s in zip(self.steps, self.counts, self.seconds, strict=True):
            count, total_s = count + counted, total_s + counted * each_s
            if count >= calls:
                rounds.steps.append(at // calls)
                rounds.counts.append(round(count / calls))
                rounds.seconds.append(total_s * calls / count)
                count, total_s = 0, 0.0
        return rounds

    def _close(self, step: int) -> None:
        self.steps.append(step)
        self.counts.append(self._open_steps)
        self.seconds.append(self._open_s / self._open_steps)
        self._open, self._open_steps, self._open_s = 0, 0, 0.0
        if len(self.steps) >= ENTRIES:
            self._halve()

    def _halve(self) -> None:
        pairs = range(0, len(self.steps) - 1, 2)
        counts = array("q", (self.counts[i] + self.counts[i + 1] for i in pairs))
        total_s = (self.seconds[i] * self.counts[i] + self.seconds[i + 1] * self.counts[i + 1] for i in pairs)
        self.seconds = array("d", (s / n for s, n in zip(total_s, counts, strict=True)))
        self.steps = array("q", (self.steps[i + 1] for i in pairs))
        self.counts = counts
        self._width *= 2

    def _clear(self) -> None:
        del self.steps[:], self.counts[:], self.seconds[:]
        self._width, self._open, self._open_steps, self._open_s = 1, 0, 0, 0.0


HALVE_AFTER = 240
"""Samples: about a minute. What was seen before counts half."""
MAX_PLACES, PLACES_TOLD = 24, 12
"""A rank that stands at more lines keeps the most frequent half of them."""
MAX_RANKS_TOLD = 64
MAX_ELSEWHERE = 256
STACKS_UP_TO_RANKS = 256
FRAMES = 16


@dataclass(slots=True)
class PaceSample:
    """One sample of one rank: whether it stood in communication, and where."""

    waits: bool
    phase: str
    user: tuple[str, int, str]
    stack: str


@dataclass(slots=True)
class _Place:
    weight: float = 0.0
    stack: str = ""


_Key = tuple[str, tuple[str, int, str]]


@dataclass(slots=True)
class _Rank:
    waits: float = 0.0
    steps: StepHistory = field(default_factory=StepHistory)
    calls: StepHistory | None = field(default_factory=StepHistory)
    """Collectives, until it is known how many of them are a step."""
    places: dict[_Key, _Place] = field(default_factory=dict)


@dataclass(slots=True)
class PaceRecord:
    """All ranks. ``samples``: how many samples count, old ones less."""

    samples: float = 0.0
    ranks: dict[int, _Rank] = field(default_factory=dict)
    _since_halved: int = 0

    def note_steps(self, samples: Mapping[int, RankSample]) -> None:
        """Take over how far the ranks' steps are; collectives, while it is not known how many are a step."""
        for rank, sample in samples.items():
            known = self.ranks.setdefault(rank, _Rank())
            if sample.view.steps <= 0 and known.calls is not None:
                known.calls.note(_most_calls(sample.view), time.monotonic_ns())
            elif sample.view.steps > 0:
                if known.calls is not None and sample.view.step_source == "rhythm":
                    known.steps = known.calls.grouped_by(sample.view.collectives_per_step)
                known.calls = None
                known.steps.note(sample.view.steps, sample.view.last_step_ns)

    def add(self, seen: Mapping[int, PaceSample]) -> None:
        """One sample of every rank."""
        self.samples += 1
        for rank, sample in seen.items():
            known = self.ranks.setdefault(rank, _Rank())
            known.waits += sample.waits
            place = known.places.setdefault((sample.phase, sample.user), _Place())
            place.weight += 1
            if len(seen) <= STACKS_UP_TO_RANKS:
                place.stack = sample.stack
            if len(known.places) > MAX_PLACES:
                known.places = _top(known.places, MAX_PLACES // 2)
        self._since_halved += 1
        if self._since_halved >= HALVE_AFTER:
            self._halve()

    def _halve(self) -> None:
        self._since_halved = 0
        self.samples /= 2
        for rank in self.ranks.values():
            rank.waits /= 2
            for place in rank.places.values():
                place.weight /= 2

    def is_uneven(self) -> bool:
        """Whether one rank may be waited for at all: it waits clearly less than every other one."""
        waits = sorted(rank.waits for rank in self.ranks.values())
        return len(waits) > 1 and 2 * waits[0] <= waits[1]

    def pace(self, elsewhere: Mapping[int, float] | None = None) -> Pace:
        """``machine/pace.json``: of many ranks the ones that wait least, and some others. ``elsewhere``: shares in
        which ranks of other nodes wait."""
        order = sorted(self.ranks, key=lambda rank: (self.ranks[rank].waits, rank))
        told = sorted(order[: MAX_RANKS_TOLD // 2] + order[MAX_RANKS_TOLD // 2 :][-MAX_RANKS_TOLD // 2 :])
        samples = max(self.samples, 1.0)
        ranks = [_rank_pace(rank, self.ranks[rank], samples) for rank in told]
        least = sorted((elsewhere or {}).items(), key=lambda known: known[1])[:MAX_ELSEWHERE]
        ranks += [RankPace(rank, waits=share) for rank, share in least if rank not in self.ranks]
        return Pace(samples=round(self.samples), ranks=tuple(ranks))


def pace_sample(view: RecordView, *, waits: bool) -> PaceSample:
    """What one record shows."""
    return PaceSample(waits, "communication" if waits else view.phase, _line(view.user), view.stack)


def _most_calls(view: RecordView) -> int:
    return max((group.enqueued for group in view.groups), default=0)


def _top(places: dict[_Key, _Place], most: int) -> dict[_Key, _Place]:
    return dict(sorted(places.items(), key=lambda item: -item[1].weight)[:most])


def _line(place: CodeLine) -> tuple[str, int, str]:
    return (place.file, place.line, place.function)


def _rank_pace(number: int, rank: _Rank, samples: float) -> RankPace:
    places = _top(rank.places, PLACES_TOLD).items()
    return RankPace(
        number,
        tuple((step, round(seconds, 6)) for step, seconds in rank.steps.told()),
        _share(rank.waits, samples),
        tuple(
            PacePlace(_share(p.weight, samples), phase, tuple(_frames(p.stack, user))) for (phase, user), p in places
        ),
    )


def _share(weight: float, samples: float) -> float:
    return round(min(1.0, weight / samples), 4)


def _frames(stack: str, user: tuple[str, int, str]) -> Iterable[tuple[str, int, str]]:
    """The innermost frames down to the user's own line, which is always among them."""
    found = 0
    for text in stack.splitlines()[:FRAMES]:
        rest, _, function = text.rpartition(":")
        file, _, line = rest.rpartition(":")
        if not line.isdigit() or not f"{file}{function}".isprintable():
            continue
        yield (file, int(line), function)
        found += (file, function) == (user[0], user[2])
    if not found and user[0] and f"{user[0]}{user[2]}".isprintable():
        yield user


MIN_SAMPLES = 20
MIN_WAITING = 0.5


@dataclass(slots=True)
class RunTotals:
    """Counts over all samples of all ranks, for the run's summary."""

    steps: int = 0
    ticks: int = 0
    waiting: Counter[int] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    """Of waits that ended by themselves."""
    failed_samples: int = 0
    """Samples that came to nothing because of us."""
    by_phase: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By label of marked phases that ended: (seconds, how many), of the rank that spent most."""
    _history: StepHistory = field(default_factory=StepHistory)
    _step_sum: int = 0
    _ticks_since: int = 0
    _waiting_since: Counter[int] = field(default_factory=Counter)
    """Since a step ended last: counted when the next one does, so that a stall makes nobody the slowest."""

    def found(self, cause: str, *, instead_of: str | None = None) -> None:
        """A verdict was printed; ``instead_of``: the one before, which it takes the place of."""
        if instead_of in self.findings:
            self.findings.remove(instead_of)
        self.findings.append(cause)

    def note_stall_over(self, cause: str) -> None:
        """The wait of that verdict ended by itself."""
        if cause in self.findings:
            self.findings.remove(cause)
        self.over.append(cause)

    def add(self, samples: Mapping[int, RankSample]) -> None:
        """Count one sample of every rank."""
        for sample in samples.values():
            for one in sample.view.spent:
                self.by_phase[one.label] = max(self.by_phase.get(one.label, (0.0, 0)), (one.ns / 1e9, one.times))
        views = {rank: sample.view for rank, sample in samples.items() if sample.view.steps > 0}
        if views:
            first = views[min(views)]
            self.steps = max(self.steps, *(view.steps for view in views.values()))
            self._history.note(first.steps, first.last_step_ns)
        if any(sample.view.mark is not None for sample in samples.values()):
            return  # planned work says nothing of the pace of the steps
        if len(samples) > 1 and all(sample.view.steps > 0 and not sample.view.closed for sample in samples.values()):
            self._count_steps(sum(view.steps for view in views.values()))
            self._ticks_since += 1
            self._waiting_since.update(rank for rank, sample in samples.items() if is_in_communication(sample.view))

    def _count_steps(self, step_sum: int) -> None:
        if step_sum == self._step_sum:
            return
        self.ticks += self._ticks_since
        self.waiting.update(self._waiting_since)
        self._step_sum, self._ticks_since = step_sum, 0
        self._waiting_since.clear()

    @property
    def median_step_s(self) -> float | None:
        """Half of all steps took longer, half took less; None before two are known."""
        return self._history.median_s()

    def slowest(self, ranks: Mapping[int, object]) -> int | None:
        """The rank that waits least, where the others wait for more than half of the time; None without such a rank."""
        if self.ticks < MIN_SAMPLES or len(ranks) < 2:
            return None
        shares = {rank: self.waiting[rank] / self.ticks for rank in ranks}
        least = min(shares, key=lambda rank: (shares[rank], rank))
        others = [share for rank, share in shares.items() if rank != least]
        return least if min(others) >= MIN_WAITING and shares[least] <= min(others) / 2 else None
