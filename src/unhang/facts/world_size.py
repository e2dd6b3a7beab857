"""How many ranks there are, from whatever says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import RecorderDump
from unhang.facts.model import Facts, RankFacts
from unhang.knowledge.numbers import MAX_RANKS

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


def world_size_of(
    evidence: EvidenceSet, recordings: Mapping[int, RecorderDump], ranks: Mapping[int, RankFacts]
) -> int | None:
    """The manifest's word, else the default group's members, else what logs say; never less than the ranks seen."""
    least = max(ranks, default=-1) + 1
    for manifest in evidence.manifests:
        if manifest.world_size:
            return max(manifest.world_size, least)
    sizes: Counter[int] = Counter()
    for recording in recordings.values():
        for group in recording.groups.values():
            if group.description == "default_pg" and group.ranks:
                sizes[len(group.ranks)] += 1
    if sizes:
        return max(sizes.most_common(1)[0][0], least)
    told = [
        value
        for log in evidence.logs
        for event in log.events
        for name in WORLD_FIELDS
        if isinstance(value := event.values.get(name), int) and 0 < value <= MAX_RANKS
    ]
    told += [size for log in evidence.logs for size in log.sizes]
    if told:
        return max(*told, least)
    gathered = _size_by_gather(evidence)
    if gathered is not None:
        return max(gathered, least)
    if any(r.backend == "gloo" for r in recordings.values()) and least > 1:
        return least
    return None


def is_world_size_stated(facts: Facts) -> bool:
    """Something says how large the job is; it was not concluded from the ranks that were seen."""
    if any(manifest.world_size for manifest in facts.manifests):
        return True
    recordings = (known.recording for known in facts.ranks.values() if known.recording is not None)
    if any(g.description == "default_pg" and g.ranks for r in recordings for g in r.groups.values()):
        return True
    if any(log.sizes for log in facts.logs):
        return True
    return any(isinstance(event.values.get(name), int) for event in facts.events for name in WORLD_FIELDS)
