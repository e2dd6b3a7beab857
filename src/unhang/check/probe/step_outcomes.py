"""From what single ranks said to steps: who finished, who is stuck, who never came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from unhang.check.probe.probe_jobs import Groups, ProbeJob, StepReport
from unhang.check.probe_results.probe_results import PairSpeed, ProbeStep


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """A job that ended: its steps as they went, up to the one at which it broke, and the ranks nobody heard of."""

    job: ProbeJob
    lines: tuple[StepReport, ...]
    silent: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[ProbeStep, ...]:
        """The steps that some rank began."""
        by_step: dict[int, list[StepReport]] = {}
        for line in self.lines:
            by_step.setdefault(line.step, []).append(line)
        broken = {line.rank for line in self.lines if line.error} | self._unfinished_ranks()
        return tuple(
            _filled(step, by_step[number], broken, self.silent)
            for number, step in enumerate(self.job.steps)
            if number in by_step
        )

    @property
    def left(self) -> int:
        """Steps that nobody began."""
        return len(self.job.steps) - len({line.step for line in self.lines})

    @property
    def failed_islands(self) -> Groups:
        """Islands in which a rank did not come to the end."""
        done = {line.rank for line in self.lines if line.step == len(self.job.steps) - 1 and _is_end(line)}
        return tuple(island for island in self.job.islands if not set(island) <= done)

    def _unfinished_ranks(self) -> set[int]:
        """Ranks that began a step and said nothing more."""
        begun = {(line.rank, line.step) for line in self.lines if line.begun}
        ended = {(line.rank, line.step) for line in self.lines if not line.begun}
        return {rank for rank, _ in begun - ended}


def _is_end(line: StepReport) -> bool:
    return not line.begun and not line.error


def _filled(step: ProbeStep, lines: Sequence[StepReport], broken: set[int], silent: Iterable[int]) -> ProbeStep:
    members = {rank for group in step.groups for rank in group}
    ended = {line.rank: line for line in lines if not line.begun}
    finished = {rank for rank, line in ended.items() if not line.error}
    begun = {line.rank for line in lines}
    stuck = begun - finished
    # Who stands in no step is absent only where somebody waits: a rank that broke earlier is named there.
    absent = members - begun if stuck else members & set(silent)
    times = [line.call_s for line in ended.values() if line.call_s is not None]
    return replace(
        step,
        call_s=max(times) if times and finished >= members else None,
        finished=tuple(sorted(finished)),
        stuck=tuple(sorted(stuck)),
        absent=tuple(sorted(absent)),
        wrong=tuple(sorted(rank for rank, line in ended.items() if line.wrong)),
        error=next((line.error for line in _by_blame(ended.values(), broken)), ""),
        unsupported=next((line.unsupported for line in ended.values() if line.unsupported), ""),
        left_out=any(line.left_out for line in ended.values()),
    )


def _by_blame(lines: Iterable[StepReport], broken: set[int]) -> Iterator[StepReport]:
    """Errors, the ones that are not the mere end of a neighbour first."""
    said = [line for line in lines if line.error and line.rank in broken]
    return iter(sorted(said, key=lambda line: ("closed by peer" in line.error, line.rank)))


def pairs_of(steps: Iterable[ProbeStep], lines: Iterable[StepReport]) -> Iterator[PairSpeed]:
    """Every pair that was measured; in steps on several pairs each has its own time."""
    steps = list(steps)
    times = {(line.step, line.rank): line.call_s for line in lines if line.call_s}
    found: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for number, step in enumerate(steps):
        for a, b in step.groups if step.operation == "pair" else ():
            own = [times[number, rank] for rank in (a, b) if (number, rank) in times]
            if len(own) == 2:
                found.setdefault((a, b), []).append((step.size, max(filter(None, own))))
    for ranks, measured in found.items():
        measured.sort()
        size, seconds = measured[-1]
        yield PairSpeed(ranks, measured[0][1], size / seconds)
