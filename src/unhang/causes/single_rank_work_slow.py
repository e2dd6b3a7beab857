"""single-rank-work: in a job that moves: one rank does work of its own in every step, and the others wait for it.

What happens: one rank, mostly rank 0, logs, saves, evaluates or writes files between steps; the job goes at its pace.
Why it hangs: it does not; it slows, and where that work grows (a log that gets longer), a limit is passed in the end.
Example: rank 0 writes TensorBoard images to a network drive; since step 1800 a step takes 1.9 s, before it took 0.4 s.
Fix: do that work less often, in a background thread, or on another machine; keep the training thread free of it.
Certain when: never from looks alone; *likely* from many looks, or when it comes last to nearly all collectives.
Possible when: in two looks the same rank is busy with such work while all others wait for it, and the job moves.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.single_rank_work import WORK, writes_or_reads
from unhang.facts.machine_state import storage_signs
from unhang.facts.model import Facts
from unhang.findings import Cause, Phase, Remedy, Severity, Text, say
from unhang.rules import machine_lines, pace_lines
from unhang.rules.evidence_lines import hosts_of
from unhang.rules.log_remedies import log_remedies
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.SINGLE_RANK_WORK
_MEANS = {"http", "file-io", "json", "file-lock"}
"""How something is done, not what: where the phase is known, it says more."""


def check(facts: Facts) -> Iterator[Answer]:
    """The straggler of a moving job, where it does work that is not training."""
    straggler = facts.straggler
    if straggler is None or facts.graph.edges or not pace_lines.is_own_work(straggler.activity):
        return
    activity = straggler.activity
    assert activity is not None
    signs = storage_signs(facts, (straggler.rank,)) if writes_or_reads(activity.phase, activity.what) else ()
    yield finding(
        CAUSE,
        pace_lines.certainty_of(straggler),
        say(
            "the job moves at the pace of rank {rank}, which is {doing} while the others wait for it",
            rank=straggler.rank,
            doing=_doing(activity.what, activity.phase),
        ),
        severity=Severity.SLOWS,
        ranks=(straggler.rank,),
        nodes=hosts_of(facts, (straggler.rank,)),
        phase=activity.phase,
        where=activity.where,
        waiter_where=straggler.waiter.where if straggler.waiter else None,
        because=(*pace_lines.because(straggler), *machine_lines.because(signs)),
        evidence=(activity.evidence, *machine_lines.evidence(signs)),
        remedies=(*machine_lines.remedies(signs), *_remedies(activity.phase)),
    )


def _doing(what: str, phase: Phase | None) -> str | Text:
    by_phase = {Phase.SAVE: "saving a checkpoint", Phase.LOG: "writing a log", Phase.EVAL: "evaluating"}
    if what in _MEANS:
        return by_phase.get(phase or Phase.OTHER) or WORK[what]
    return WORK.get(what) or by_phase.get(phase or Phase.OTHER) or "working alone"


def _remedies(phase: Phase) -> tuple[Remedy, ...]:
    return log_remedies() if phase is Phase.LOG else (_off_the_training_thread(),)


def _off_the_training_thread() -> Remedy:
    return remedy("take-this-work-out-of-the-training")
