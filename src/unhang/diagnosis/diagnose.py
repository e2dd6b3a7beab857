"""Facts in, verdict out: the detectors, then the passes, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from unhang.causes.detector import Detector
from unhang.diagnosis.detectors import ALL_DETECTORS, ask_detectors
from unhang.diagnosis.differential import list_candidates
from unhang.diagnosis.gaps import name_gaps, name_gaps_of_lead
from unhang.diagnosis.grades import cap_by_gaps, cap_misplaced_findings, cap_unverified_claims
from unhang.diagnosis.health import doubt_health
from unhang.diagnosis.internal_failures import join_gaps, withdraw_health
from unhang.diagnosis.lead_notes import (
    note_last_words,
    note_late_ends,
    note_machine_state,
    note_marks,
    note_own_lines,
    note_repeats,
    note_slowdown,
)
from unhang.diagnosis.ranking import join_rank_and_explain_away
from unhang.diagnosis.remaining_rank import name_remaining_rank
from unhang.diagnosis.restart import advise_restart
from unhang.diagnosis.ruled_out import name_contradicted
from unhang.diagnosis.severity import downgrade_outlived, soften_work
from unhang.diagnosis.status import date_stall, decide_status
from unhang.facts.fault_isolation import IsolatedSteps
from unhang.facts.model import Facts
from unhang.findings import Status, Verdict
from unhang.sentences import Text, say


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of the diagnosis: from the verdict so far to a new one.

    ``run`` says in its docstring what it does, and ``docs/reasoning.md`` repeats it. ``answers`` is the question that
    is named as not checked where ``run`` fails; the verdict stays as it was then.
    """

    run: Callable[[Facts, Verdict], Verdict]
    answers: Text


_STATE = say("the state of the job")
_MISSING = say("what is missing")
_MACHINES = say("what the machines show")
_SEVERITY = say("how bad it is at this moment")
_CERTAIN = say("how certain it is")
PASSES = (
    Pass(name_gaps, _MISSING),
    Pass(cap_misplaced_findings, _CERTAIN),
    Pass(cap_unverified_claims, _CERTAIN),
    Pass(cap_by_gaps, _CERTAIN),
    Pass(join_rank_and_explain_away, say("what explains what")),
    Pass(downgrade_outlived, say("what the job survived")),
    Pass(doubt_health, _STATE),
    Pass(name_gaps_of_lead, _MISSING),
    Pass(note_repeats, _MACHINES),
    Pass(note_machine_state, _MACHINES),
    Pass(name_remaining_rank, say("which rank it was")),
    Pass(note_late_ends, say("what came after the limit")),
    Pass(note_last_words, say("what was printed last")),
    Pass(note_own_lines, say("what was printed last")),
    Pass(note_slowdown, say("since when")),
    Pass(note_marks, _SEVERITY),
    Pass(soften_work, _SEVERITY),
    Pass(decide_status, _STATE),
    Pass(name_contradicted, say("what is ruled out")),
    Pass(advise_restart, say("whether to restart")),
    Pass(date_stall, say("since when")),
    Pass(list_candidates, say("what usually lies behind it")),
    Pass(join_gaps, _MISSING),
    Pass(withdraw_health, _STATE),
)
"""Every cap of a certainty comes before anything is ranked."""


def diagnose(facts: Facts, detectors: Sequence[Detector] = ALL_DETECTORS) -> Verdict:
    """The verdict on ``facts``; the same for every order in which they were read."""
    verdict = Verdict(
        status=Status.UNKNOWN,
        world_size=facts.world_size,
        ranks_seen=facts.ranks_seen,
        ranks_missing=facts.ranks_missing,
        findings=(),
        not_checked=tuple(facts.not_checked),
        unread=tuple(dict.fromkeys(facts.unread)),
    )
    verdict = ask_detectors(facts, verdict, detectors)
    steps = IsolatedSteps()
    for step in PASSES:
        verdict = steps.made(step.answers, partial(step.run, facts, verdict), verdict)
        if steps.failed:
            verdict = replace(verdict, not_checked=(*verdict.not_checked, steps.failed.pop()))
    return verdict
