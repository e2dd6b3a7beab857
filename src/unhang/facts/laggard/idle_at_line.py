"""A rank that does nothing at a line of its own: it waits for what a library in C, or the system, does not give it."""

from __future__ import annotations

from unhang.facts.model import RankFacts
from unhang.findings import Phase
from unhang.knowledge.single_rank_work_words import single_rank_work_words


def is_idle_at_line(known: RankFacts) -> bool:
    """Asleep at one user line in every sample, in no collective and in no work or wait that has a name."""
    activity = known.activity
    if activity is None or activity.where is None or known.moving is not False or known.process_state != "S":
        return False
    if activity.thread is not None and activity.thread.active:
        return False  # py-spy saw it on a processor
    return activity.phase is not Phase.COMMUNICATION and activity.what not in single_rank_work_words()
