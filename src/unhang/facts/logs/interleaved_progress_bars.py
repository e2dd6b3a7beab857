"""Progress bars of several processes mixed in one stream that names no rank: the same bar with different lengths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from unhang.evidence.items import LogReading, Progress
from unhang.facts.evidence_quotes import quote_progress
from unhang.facts.logs.event_timing import is_preparing
from unhang.findings import Evidence
from unhang.knowledge.thresholds import whole_threshold

# Of a label, so many letters are enough to know it by.
_TELLING = whole_threshold("interleaved_progress_bars.telling_letters")


@dataclass(frozen=True, slots=True)
class InterleavedBars:
    """One bar that runs with several lengths at a time: that many processes count to other ends.

    ``reached``: the last step seen of each length. ``evidence``: the last line of the longest.
    """

    reached: dict[int, int]
    evidence: Evidence

    @property
    def one_is_done(self) -> bool:
        """The shortest has come to its end, a longer one has not."""
        shortest = min(self.reached)
        return self.reached[shortest] >= shortest and any(step < total for total, step in self.reached.items())

    @property
    def told(self) -> str:
        """``99/99, 99/138``."""
        return ", ".join(f"{step}/{total}" for total, step in sorted(self.reached.items()))


def interleaved_bars(logs: Iterable[LogReading]) -> InterleavedBars | None:
    """The first bar of which one length goes on after another has shown up in between; None where none does.

    A bar that starts anew with another length (the next epoch) comes after the one before, and is none; nor is work
    that the ranks share out before the loop (each tokenises its own part).
    """
    for log in logs:
        by_label: dict[tuple[str, int], list[Progress]] = defaultdict(list)
        runs_of_many = [
            run for run in log.progress if run.rank is None and run.total is not None and not is_preparing(run)
        ]
        labels = sorted({run.label for run in runs_of_many}, key=len, reverse=True)
        for run in runs_of_many:
            by_label[_whole_label(run.label, labels), run.attempt].append(run)
        for runs in by_label.values():
            if _goes_on(runs):
                last = {run.total: run for run in runs if run.total is not None}
                reached = {total: run.last_step for total, run in last.items()}
                return InterleavedBars(reached, quote_progress(last[max(last)]))
    return None


def _whole_label(label: str, labels: list[str]) -> str:
    """The longest of ``labels`` that ends with this one: of a line that was broken, the end of its label is left."""
    return next((other for other in labels if len(label) >= _TELLING and other.endswith(label)), label)


def _goes_on(runs: list[Progress]) -> bool:
    """A, then B, then A from where it stood, and B likewise."""
    going = set()
    for at, run in enumerate(runs):
        before = [other for other in runs[:at] if other.total == run.total]
        if before and runs[at - 1].total != run.total and run.first_step >= before[-1].last_step > 0:
            going.add(run.total)
    return len(going) > 1
