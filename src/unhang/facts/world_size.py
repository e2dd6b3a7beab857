"""How many ranks there are, from whatever says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import LogReading, RecorderDump
from unhang.facts.collective_operations import ranks_by_sizes
from unhang.facts.model import Facts, RankFacts
from unhang.knowledge.numbers import MAX_RANKS
from unhang.wire.documents.bundle import BundleManifest

# Fields of log events that carry the number of ranks of the job.
WORLD_FIELDS = ("world_size", "nranks", "comm_size")


def _size_by_gather(evidence: EvidenceSet) -> int | None:
    """The largest number of ranks that the sizes of a call tell is that of the default group."""
    told = (event.values for log in evidence.logs for event in log.events)
    sizes = (ranks_by_sizes(str(v.get("operation")), v.get("elements_in"), v.get("elements_out")) for v in told)
    return max((size for size in sizes if size is not None and size <= MAX_RANKS), default=None)


def stated_size(
    manifests: Iterable[BundleManifest], recordings: Iterable[RecorderDump], logs: Sequence[LogReading]
) -> int | None:
    """The manifest's word, else the default group's members, else what logs say."""
    for manifest in manifests:
        if manifest.world_size:
            return manifest.world_size
    groups = (group for recording in recordings for group in recording.groups.values())
    sizes = Counter(len(group.ranks) for group in groups if group.description == "default_pg" and group.ranks)
    if sizes:
        return sizes.most_common(1)[0][0]
    values = [event.values.get(name) for log in logs for event in log.events for name in WORLD_FIELDS]
    told = [value for value in values if isinstance(value, int) and 0 < value <= MAX_RANKS]
    return max((*told, *(size for log in logs for size in log.sizes)), default=None)


def world_size_of(
    evidence: EvidenceSet, recordings: Mapping[int, RecorderDump], ranks: Mapping[int, RankFacts]
) -> int | None:
    """What something says, else what an all-gather's sizes tell; never less than the ranks seen."""
    least = max(ranks, default=-1) + 1
    size = stated_size(evidence.manifests, recordings.values(), evidence.logs)
    if size is None:
        size = _size_by_gather(evidence)
    if size is not None:
        return max(size, least)
    return least if least > 1 and any(r.backend == "gloo" for r in recordings.values()) else None


def ranks_of_job(world_size: int | None, seen: Collection[int]) -> tuple[int, ...]:
    """All ranks of a job of known size; else those that were seen. Ranks are numbered from 0, so a gap below the
    highest is a rank too: where most are there, it is missing; where few are, the log is of one node or filtered, and
    only a gap between the lowest and the highest is.
    """
    if world_size is not None:
        return tuple(range(world_size))
    for first in (0, min(seen, default=0)):
        everybody = range(first, max(seen, default=-1) + 1)
        if 2 * len(seen) > len(everybody):
            return tuple(everybody)
    return tuple(sorted(seen))


def is_world_size_stated(facts: Facts) -> bool:
    """Something says how large the job is; it was not concluded from the ranks that were seen."""
    recordings = [known.recording for known in facts.ranks.values() if known.recording is not None]
    return stated_size(facts.manifests, recordings, facts.logs) is not None
