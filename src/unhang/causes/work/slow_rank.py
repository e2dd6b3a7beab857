"""slow-rank: one rank's own compute is slow (heat, clocks, a crowded card, CPU starvation, more work).

What happens: every step goes at the pace of one rank; the others stand in the step's collective most of the time.
Why it hangs: it does not; it slows, until a limit is passed.
Example: rank 1 augments its samples with four times the work; a card of one node runs hot and lowers its clocks.
Fix: look at the line this rank is busy at; compare clocks, heat and other processes of its card with the others'.
Certain when: never from looks alone; *likely* from many looks, or when it comes last to nearly all collectives, or when
the machine shows what holds this rank alone up: its card's clocks, a stranger on it, a limit on its processors.
Possible when: in two looks the same rank computes while all others wait for it, and the job moves.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult
from unhang.causes.wording import pace_reasons
from unhang.causes.wording.next_steps import rank_command
from unhang.facts.machine.machine_state import signs_of_rank
from unhang.facts.model import Facts
from unhang.findings import Cause
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences

CAUSE = Cause.SLOW_RANK
tell = Sentences("causes/slow-rank.toml")


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """The straggler of a moving job, where it is its own code or compute that takes long."""
    straggler = facts.straggler
    if straggler is None or facts.graph.edges:
        return
    if pace_reasons.is_loading(straggler.activity) or pace_reasons.is_own_work(straggler.activity):
        return
    summary = tell("pace", rank=straggler.rank)
    signs = signs_of_rank(facts, straggler.rank)
    look_closer = remedy(
        "profile-slow-rank",
        rank=straggler.rank,
        command=rank_command(facts, straggler.rank, "py-spy record --duration 30"),
    )
    yield pace_reasons.slow_rank_signal(facts, straggler, summary, signs, look_closer)
