"""What the ranks of a probe do and say, as data: steps in order, each on groups that work at the same time.

One bad member of many is found in two rounds. Every member meets a partner; a group that fails has at least one bad
member. Then each of its members stands beside one that passed, and whoever fails again is bad.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from unhang.check.probe_results.probe_results import PairSpeed, ProbeStep

Groups = tuple[tuple[int, ...], ...]
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
CPU_SIZES = (4 << 10, 256 << 10, 4 << 20)
GPU_SIZES = (4 << 10, 1 << 20, 64 << 20)
MAX_RANKS_ALL_PAIRS = 16
Group = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """``islands``: groups that know nothing of each other; each is a world of its own. ``set``: variables to change
    before the ranks start (an empty value takes the variable out). ``meeting_key`` keeps jobs apart in the store.
    """

    number: int
    backend: str
    islands: Groups
    steps: tuple[ProbeStep, ...]
    limit_s: float
    set: Mapping[str, str] = field(default_factory=dict)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Everyone who takes part."""
        return tuple(sorted(rank for island in self.islands for rank in island))


@dataclass(frozen=True, slots=True)
class StepReport:
    """What a rank says about one step: that it ``begun``, or how it ended."""

    rank: int
    step: int
    begun: bool = False
    call_s: float | None = None
    wrong: bool = False
    error: str = ""
    unsupported: str = ""
    left_out: bool = False
    device: str = ""


def connect_step(groups: Groups, scope: str = "world") -> ProbeStep:
    """The step that makes ``groups``."""
    return ProbeStep("connect", scope, groups)


def world_steps(world: int, scopes: Mapping[str, int], sizes: Sequence[int]) -> tuple[ProbeStep, ...]:
    """Everything a healthy world is asked: all collectives on the world, two on every other group size, all pairs.

    Args:
        world: how many ranks.
        scopes: ranks of one group by where that number comes from; sizes that do not divide the world are left out.
        sizes: bytes, ascending.
    """
    everyone: Groups = (tuple(range(world)),)
    steps = [connect_step(everyone)]
    steps += [ProbeStep(name, "world", everyone, size) for name in COLLECTIVES for size in sizes]
    for scope, groups in consecutive_groups(world, scopes).items():
        steps.append(connect_step(groups, scope))
        steps += [ProbeStep(name, scope, groups, size) for name in ("all-reduce", "all-gather") for size in sizes]
    return (*steps, *pair_steps(world, sizes))


def consecutive_groups(world: int, scopes: Mapping[str, int]) -> dict[str, Groups]:
    """Consecutive ranks in groups of each size, each size once."""
    found: dict[int, str] = {}
    for scope, size in scopes.items():
        if 1 < size < world and world % size == 0:
            found.setdefault(size, scope)
    return {
        scope: tuple(tuple(range(start, start + size)) for start in range(0, world, size))
        for size, scope in found.items()
    }


def pair_steps(world: int, sizes: Sequence[int]) -> tuple[ProbeStep, ...]:
    """Every pair up to 16 ranks, beyond that two neighbours each; the smallest message and the largest."""
    if world < 2:
        return ()
    members = range(world)
    rounds = all_pairs_rounds(members) if world <= MAX_RANKS_ALL_PAIRS else neighbour_rounds(members)
    return tuple(ProbeStep("pair", "world", pairs, size) for pairs in rounds for size in (sizes[0], sizes[-1]))


def pairs_alone(world: int, pairs: Sequence[tuple[int, int]], sizes: Sequence[int]) -> tuple[ProbeStep, ...]:
    """The same pairs again, one at a time, so that no other traffic is in their way."""
    everyone: Groups = (tuple(range(world)),)
    return (connect_step(everyone), *(ProbeStep("pair", "world", (pair,), size) for pair in pairs for size in sizes))


def small_steps(islands: Groups, sizes: Sequence[int]) -> tuple[ProbeStep, ...]:
    """Whether these islands work at all, and how fast."""
    return (connect_step(islands), *(ProbeStep("all-reduce", "world", islands, size) for size in sizes))


def quick_steps(world: int, sizes: Sequence[int]) -> tuple[ProbeStep, ...]:
    """All-reduce in every size, the other collectives in one, and one round of pairs."""
    everyone: Groups = (tuple(range(world)),)
    others = [ProbeStep(name, "world", everyone, sizes[1]) for name in COLLECTIVES if name != "all-reduce"]
    return (*small_steps(everyone, sizes), *others, *pair_steps(world, sizes[:2])[:2])


def first_round(members: Sequence[int]) -> tuple[Group, ...]:
    """Pairs of neighbours; the last group takes the odd one."""
    if len(members) < 2:
        return ()
    pairs = [tuple(members[start : start + 2]) for start in range(0, len(members) - 1, 2)]
    if len(members) % 2:
        pairs[-1] = (*pairs[-1], members[-1])
    return tuple(pairs)


def second_round(groups: Sequence[Group], failed: Collection[Group]) -> tuple[Group, ...]:
    """Every member of a failed group beside members that passed, which are dealt out as far as they go.

    Where there are more suspects than members that passed, the rest is left for another round and not in the answer.
    """
    suspects = [member for group in groups if group in failed for member in group]
    fine = [member for group in groups if group not in failed for member in group]
    return tuple((suspect, partner) for suspect, partner in zip(suspects, fine, strict=False))


def all_pairs_rounds(members: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Every pair once, in rounds of pairs that share nobody (the circle method)."""
    around: list[int | None] = list(members)
    if len(around) % 2:
        around.append(None)
    rounds = []
    for _ in range(len(around) - 1):
        half = len(around) // 2
        met = zip(around[:half], reversed(around[half:]), strict=True)
        rounds.append(tuple((a, b) for a, b in met if a is not None and b is not None))
        around = [around[0], around[-1], *around[1:-1]]
    return tuple(rounds)


def neighbour_rounds(members: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Two rounds in which every member meets two others: enough to tell a slow member from a slow pair of many."""
    even = tuple((members[i], members[i + 1]) for i in range(0, len(members) - 1, 2))
    odd = tuple((members[i], members[(i + 1) % len(members)]) for i in range(1, len(members), 2))
    return tuple(pairs for pairs in (even, odd) if pairs)


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
        size, seconds = max(measured)
        yield PairSpeed(ranks, size / seconds)
