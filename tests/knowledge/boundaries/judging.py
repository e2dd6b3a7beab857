"""What ``diagnosis/`` decides by a number: which candidates are worth a word, which lines belong together."""

from __future__ import annotations

from unittest.mock import patch

from tests.knowledge.boundaries.boundary import turns
from tests.knowledge.boundaries.logs import facts_of, said, timeout
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
    return len(candidates(CauseShare("uneven-data", share, ()), CauseShare("single-rank-work", 1 - share, ())))


@turns("differential.min_seen")
def a_reason_of_few_incidents(count: int) -> object:
    (one,) = candidates(CauseShare("uneven-data", 0.5, (("barrier", count, count),)))
    return len(one.because)


@turns("good_endings.killed_after_s", 90, 91)
def steps_after_an_end(seconds: float) -> object:
    """The job has reported its end, and counted its last step so long after Slurm had ended it."""
    ended = said(0, "x", 0).replace(
        "[rank0]: x", "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 12:00:00 DUE TO TIME LIMIT ***"
    )
    steps = [said(0, f"step {number} loss 3.0", at_s) for number, at_s in ((1, -60), (2, -30))]
    again = said(0, "step 9 loss 2.0", seconds)
    return diagnose(facts_of(*steps, ended, again, said(0, "Training completed", seconds))).status
