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

from unhang.facts.machine_state import signs_of_rank
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Remedy, Severity, say
from unhang.rules import machine_lines, pace_lines
from unhang.rules.evidence_lines import hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.SLOW_RANK


def check(facts: Facts) -> Iterator[Answer]:
    """The straggler of a moving job, where it is its own code or compute that takes long."""
    straggler = facts.straggler
    if straggler is None or facts.graph.edges:
        return
    activity = straggler.activity
    if pace_lines.is_loading(activity) or pace_lines.is_own_work(activity):
        return
    signs = signs_of_rank(facts, straggler.rank)
    yield finding(
        CAUSE,
        Certainty.LIKELY if signs else pace_lines.certainty_of(straggler),
        say("the job moves at the pace of rank {rank}; the others wait for it", rank=straggler.rank),
        severity=Severity.SLOWS,
        ranks=(straggler.rank,),
        nodes=hosts_of(facts, (straggler.rank,)),
        phase=activity.phase if activity is not None else None,
        where=activity.where if activity is not None else None,
        waiter_where=straggler.waiter.where if straggler.waiter else None,
        because=(*pace_lines.because(straggler), *machine_lines.because(signs)),
        evidence=(*((activity.evidence,) if activity is not None else ()), *machine_lines.evidence(signs)),
        remedies=(*machine_lines.remedies(signs), _look_closer(straggler.rank)),
    )


def _look_closer(rank: int) -> Remedy:
    return remedy("find-out-what-makes-rank-slow", rank=rank)
