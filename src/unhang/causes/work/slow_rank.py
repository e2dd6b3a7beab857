"""slow-rank: one rank's own compute is slow (heat, clocks, a crowded card, CPU starvation, more work).

What happens: every step runs at the pace of one rank; the other ranks are in the step's collective most of the time.
Why it hangs: it does not hang; it slows the job until a limit passes.
Example: rank 1 augments its samples with four times the work; a card of one node runs hot and lowers its clocks.
Fix: move the line that only this rank executes out of the step; compare its batches with those of other ranks; then
check its card's clocks, heat and other processes, and who else is bound to its processors.
Certain when: never from samples alone.
Likely when: many samples show it; it comes last to nearly all collectives; or the machine shows what slows this rank
alone: its card's clocks, a foreign process on the card, a limit on its processors.
Possible when: in two samples the same rank computes while all other ranks wait for it, and the job moves.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult
from unhang.causes.wording import pace_reasons
from unhang.causes.wording.next_steps import rank_command
from unhang.facts.machine.machine_state import signs_of_rank
from unhang.facts.model import Facts, Straggler
from unhang.findings import Cause, Remedy
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
    yield pace_reasons.slow_rank_signal(facts, straggler, summary, signs, _remedy(facts, straggler))


def _remedy(facts: Facts, straggler: Straggler) -> Remedy:
    rank, place = straggler.rank, pace_reasons.busy_at(straggler)
    if straggler.own is not None:
        collects = straggler.activity is not None and straggler.activity.what == "garbage-collection"
        return remedy("collect-garbage-together" if collects else "take-own-line-out", rank=rank, place=place)
    command = rank_command(facts, rank, "py-spy record --duration 30")
    if pace_reasons.computes(straggler.activity):
        return remedy("compare-batches", rank=rank, place=place, command=command)
    return remedy("profile-slow-rank", rank=rank, command=command)
