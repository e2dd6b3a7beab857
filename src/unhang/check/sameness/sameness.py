"""What must be the same on every rank: what a node holds before a run, and what each rank has at its first step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text, rank_ranges


@dataclass(frozen=True, slots=True)
class NodeFingerprint:
    """Hashes of program and configuration, environment and versions of one node, which must be equal on all nodes.
    SHA-256, shortened; by path as the command leads to it."""

    program: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of the families above, without what differs by rank on purpose."""
    versions: Mapping[str, str] = field(default_factory=dict)
    others: bool = False
    """The job is planned on more than this node."""


@dataclass(frozen=True, slots=True)
class LoaderStart:
    """One data loader of one rank. ``nth`` counts those made at one line; ``read``: its place among those that were
    read before the first step, None for the others. ``steps`` and ``length`` are None where nothing has a length.
    """

    file: str
    line: int
    nth: int = 0
    read: int | None = None
    steps: int | None = None
    batch: int | None = None
    workers: int = 0
    sampler: str = ""
    batch_sampler: str = ""
    dataset: str = ""
    length: int | None = None
    fingerprint: str = ""

    @property
    def cut_by_rank(self) -> bool:
        """The sampler gives every rank its own share of one data set, so that all must hold the same one."""
        return "Distributed" in self.sampler or "Shard" in self.batch_sampler or "Distributed" in self.batch_sampler


@dataclass(frozen=True, slots=True)
class ModelParameters:
    """What the optimizer changes. ``kind``: ``ddp``, ``sharded`` or ``plain``; ``rows``: (name, shape, hash of values),
    the first thousand.
    """

    kind: str
    count: int
    shapes: str
    values: str
    rows: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RankStart:
    """One rank just before its first optimizer step. ``stage``: ``step``, or how far it came: ``data`` (it read data
    and came no further), ``ended`` (the program ended without a step); with timed steps ``stepping`` and ``done``.
    """

    rank: int
    world_size: int
    host: str
    stage: str
    peers: int = 0
    """Ranks of this command on its machine; 0 where nothing says."""
    versions: Mapping[str, str] = field(default_factory=dict)
    random: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """A hash by generator, when data was first read (``data``) and before the step (``step``)."""
    loaders: tuple[LoaderStart, ...] = ()
    parameters: ModelParameters | None = None
    step_s: tuple[float, ...] = ()
    memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes: ``host`` and ``card`` at their most, ``card_size``, ``card_free``."""

    @property
    def stepped(self) -> bool:
        """It came to its first step."""
        return self.stage in ("step", "stepping", "done")


@dataclass(frozen=True, slots=True)
class DryRun:
    """The ranks of one node after a dry run. ``ended``: ``steps`` (all came to their step), ``early`` (the command
    ended before), ``limit`` (the time was over). ``last_words``: the end of the output where it did not go well.
    """

    ranks: tuple[RankStart, ...] = ()
    ended: str = "steps"
    code: int | None = None
    because: Text | None = None
    last_words: tuple[str, ...] = ()


def starts_of(situations: Iterable[NodeInspection]) -> tuple[RankStart, ...]:
    """Every rank that a dry run saw, by rank, each once."""
    found: dict[int, RankStart] = {}
    for situation in situations:
        run = situation.found(DryRun)
        for start in run.ranks if run is not None else ():
            found.setdefault(start.rank, start)
    return tuple(found[rank] for rank in sorted(found))


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """One thing that is not the same everywhere. ``places`` (nodes, ``node rank 3`` where only a rank differs) by
    value; an empty value: it is not there. ``outliers``: the places that do not have what most have.
    """

    name: str
    places: Mapping[str, tuple[str, ...]]
    outliers: tuple[str, ...]


def differences(
    situations: Sequence[NodeInspection], of: Callable[[NodeFingerprint], Mapping[str, object]]
) -> tuple[NodeDifference, ...]:
    """What differs between nodes (or ranks of one), by name."""
    values: dict[tuple[str, int | None], Mapping[str, object]] = {}
    for situation in situations:
        belongings = situation.found(NodeFingerprint)
        if belongings is not None:
            values[situation.node, situation.rank] = of(belongings)
    names = sorted({name for held in values.values() for name in held})
    found = (_difference(name, {place: str(held.get(name, "")) for place, held in values.items()}) for name in names)
    return tuple(difference for difference in found if difference is not None)


def _difference(name: str, values: Mapping[tuple[str, int | None], str]) -> NodeDifference | None:
    if len(set(values.values())) < 2:
        return None
    of_node: dict[str, set[str]] = {}
    for (node, _), value in values.items():
        of_node.setdefault(node, set()).add(value)
    places: dict[str, dict[str, None]] = {}
    for (node, rank), value in values.items():
        place = node if len(of_node[node]) == 1 else f"{node} rank {rank}"
        places.setdefault(value, {})[place] = None
    counts = Counter(values.values())
    usual = max(counts, key=lambda value: counts[value])
    odd = tuple(place for value, held in places.items() if value != usual for place in held)
    return NodeDifference(name, {value: tuple(held) for value, held in places.items()}, odd)


def compared_count(situations: Sequence[NodeInspection]) -> int:
    """How many nodes (or ranks) said what they bring; 1 is nothing to compare with."""
    return sum(situation.found(NodeFingerprint) is not None for situation in situations)


def values_by_ranks(starts: Sequence[RankStart], value: Callable[[RankStart], object]) -> str:
    """``6 on ranks 0-2, 5 on rank 3``: what ranks have, the most frequent first."""
    by_value: dict[object, list[int]] = {}
    for start in starts:
        by_value.setdefault(value(start), []).append(start.rank)
    ordered = sorted(by_value.items(), key=lambda item: -len(item[1]))
    shown = [f"{said} (rank {rank_ranges(ranks)})" for said, ranks in ordered[:6]]
    return ", ".join(shown) + (", …" if len(ordered) > 6 else "")
