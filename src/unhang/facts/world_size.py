"""How many ranks there are, from whatever says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import LogReading, RecorderDump
from unhang.facts.model import Facts, RankFacts
from unhang.knowledge.numbers import MAX_RANKS
from unhang.wire.documents.bundle import BundleManifest

# Fields of log events that carry the number of ranks of the job.
WORLD_FIELDS = ("world_size", "nranks", "comm_size")


def _size_by_gather(evidence: EvidenceSet) -> int | None:
    """An all-gather's output is its input times the ranks of the group; the largest ratio is the default group's."""
    ratios = []
    for log in evidence.logs:
        for event in log.events:
            operation = str(event.values.get("operation", ""))
            small, large = event.values.get("elements_in"), event.values.get("elements_out")
            if not isinstance(small, int) or not isinstance(large, int) or small <= 0 or large <= 0:
                continue
            if "gather" in operation and large % small == 0 and large > small:
                ratios.append(large // small)
            elif "scatter" in operation and small % large == 0 and small > large:
                ratios.append(small // large)
    return max((ratio for ratio in ratios if ratio <= MAX_RANKS), default=None)


def _stated_size(
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
    size = _stated_size(evidence.manifests, recordings.values(), evidence.logs)
    if size is None:
        size = _size_by_gather(evidence)
    if size is not None:
        return max(size, least)
    return least if least > 1 and any(r.backend == "gloo" for r in recordings.values()) else None


def is_world_size_stated(facts: Facts) -> bool:
    """Something says how large the job is; it was not concluded from the ranks that were seen."""
    recordings = [known.recording for known in facts.ranks.values() if known.recording is not None]
    return _stated_size(facts.manifests, recordings, facts.logs) is not None
