"""What ``diagnosis/`` decides by a number: which candidates are worth a word, which lines belong together."""

from __future__ import annotations

from unittest.mock import patch

from tests.knowledge.boundaries.boundary import turns
from tests.knowledge.boundaries.logs import facts_of, timeout
from unhang.diagnosis import differential
from unhang.diagnosis.diagnose import diagnose
from unhang.findings import Candidate
from unhang.knowledge.known_incidents import incident_counts
from unhang.knowledge.known_incidents.incident_counts import CauseShare


def candidates(*shares: CauseShare) -> tuple[Candidate, ...]:
    """The candidates of a stall that nothing explains, where known incidents had these shares."""
    facts = facts_of(timeout(1))
    verdict = diagnose(facts)
    with patch.object(incident_counts, "cause_shares", lambda _features: shares):
        return differential.list_candidates(facts, verdict).differential


@turns("differential.min_share")
def a_small_share(share: float) -> object:
    return len(candidates(CauseShare("uneven-data", share, ())))


@turns("differential.min_seen")
def a_reason_of_few_incidents(count: int) -> object:
    (one,) = candidates(CauseShare("uneven-data", 0.5, (("barrier", count, count),)))
    return len(one.because)
