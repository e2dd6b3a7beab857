"""What the ranks of a probe do, as data: steps in order, each on groups that work at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unhang.check.probe.bad_member_search import all_pairs_rounds, neighbour_rounds
from unhang.check.probe_results.probe_results import ProbeStep

Groups = tuple[tuple[int, ...], ...]
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
CPU_SIZES = (4 << 10, 256 << 10, 4 << 20)
GPU_SIZES = (4 << 10, 1 << 20, 64 << 20)
MAX_RANKS_ALL_PAIRS = 16


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
