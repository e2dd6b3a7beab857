"""How long the steps of one rank took, from its first to its last, in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

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
