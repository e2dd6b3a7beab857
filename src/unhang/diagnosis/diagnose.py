"""Facts in, verdict out: run the detectors, rank what they found, keep what could not be checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from unhang.causes.detector import Detector, DetectorResult, Signal
from unhang.causes.evidence_lines import hosts_of
from unhang.diagnosis.adjustments.after_timeout import note_late_ends
from unhang.diagnosis.adjustments.by_elimination import name_remaining_rank
from unhang.diagnosis.adjustments.machine_notes import note_machine_state
from unhang.diagnosis.adjustments.misplaced_findings import cap_misplaced_findings
from unhang.diagnosis.adjustments.outlived_findings import downgrade_outlived, place_among_notes
from unhang.diagnosis.adjustments.repeat_offenders import exclude_repeated_host, note_repeats
from unhang.diagnosis.adjustments.severity_while_running import adjust_to_live_job
from unhang.diagnosis.adjustments.unverified_claims import cap_unverified_claims
from unhang.diagnosis.context.health import Health, health_of, proof_as_checks
from unhang.diagnosis.context.missing_evidence import gaps_of, missing_end, missing_stacks
from unhang.diagnosis.context.restart_advice import restart_after
from unhang.diagnosis.context.ruled_out import ruled_out_by
from unhang.diagnosis.context.unreadable_stacks import unreadable_stacks
from unhang.diagnosis.detectors import ALL_DETECTORS
from unhang.diagnosis.differential import with_differential
from unhang.diagnosis.grades import grade_signal
from unhang.diagnosis.internal_failures import join_failures, withdraw_health
from unhang.diagnosis.ranking import rank_findings
from unhang.diagnosis.stall_start import stalled_since
from unhang.diagnosis.state import status_of, unexplained_findings, unproven_health
from unhang.facts.fault_isolation import IsolatedSteps
from unhang.facts.model import Facts
from unhang.findings import Certainty, Finding, NotChecked, Restart, Severity, Status, Unread, Verdict
from unhang.sentences import say


@dataclass(slots=True)
class DetectorResults:
    """What all detectors found, and what they could not check."""

    findings: list[Finding] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)


def diagnose(facts: Facts, detectors: Sequence[Detector] = ALL_DETECTORS) -> Verdict:
    """The verdict on ``facts``; the same for every order in which they were read."""
    shown = diagnose_from_evidence(facts, detectors)
    steps = IsolatedSteps()
    usual = steps.made(say("what usually lies behind it"), lambda: with_differential(shown, facts), shown)
    who = say("which rank it was")
    verdict = replace(
        usual, findings=steps.made(who, lambda: name_remaining_rank(facts, usual.findings), usual.findings)
    )
    return replace(verdict, not_checked=(*verdict.not_checked, *steps.failed))


def diagnose_from_evidence(facts: Facts, detectors: Sequence[Detector] = ALL_DETECTORS) -> Verdict:
    """The verdict on what the evidence shows by itself, without what known incidents make likely."""
    answers = run_detectors(facts, detectors)
    steps = IsolatedSteps()
    made = steps.made
    gaps: list[NotChecked] = [
        *made(say("what is missing"), lambda: [*gaps_of(facts), *unreadable_stacks(facts)], _NONE)
    ]
    limit = certainty_limit([*facts.not_checked, *answers.not_checked, *gaps], facts.unread)
    findings = rank_findings(
        cap_unverified_claims(facts, cap_misplaced_findings(facts, tuple(answers.findings))), limit
    )
    findings = made(say("what the job outlived"), lambda: downgrade_outlived(facts, findings), findings)
    if not findings:
        findings = made(_STATE, lambda: unexplained_findings(facts), ())
    health = made(_STATE, lambda: health_of(facts), Health(()))
    if not health.proof and all(finding.severity is Severity.NOTE for finding in findings):
        findings = place_among_notes(facts, unproven_health(facts, health), findings)
    gaps += made(
        say("what is missing"), lambda: [*missing_stacks(facts, findings), *missing_end(facts, findings)], _NONE
    )
    findings = made(
        say("what machines tell"), lambda: note_machine_state(facts, note_repeats(facts, findings)), findings
    )
    findings = made(say("which rank it was"), lambda: name_remaining_rank(facts, findings), findings)
    findings = made(say("what came after the limit"), lambda: note_late_ends(facts, findings), findings)
    status = made(_STATE, lambda: status_of(facts, findings, health), Status.UNKNOWN)
    verdict = Verdict(
        status=status,
        world_size=facts.world_size,
        ranks_seen=facts.ranks_seen,
        ranks_missing=facts.ranks_missing,
        findings=findings,
        ruled_out=made(say("what is ruled out"), lambda: ruled_out_by(facts, findings, limit), ()),
        unread=tuple(dict.fromkeys(facts.unread)),
        restart=made(
            say("whether to restart"),
            lambda: exclude_repeated_host(facts, findings, restart_after(findings, facts.checkpoints)),
            Restart(),
        ),
        stalled_since=made(say("since when"), lambda: stalled_since(facts), None),
        checked=proof_as_checks(health.proof) if status is Status.HEALTHY else (),
    )
    verdict = made(say("how bad it is at this moment"), lambda: adjust_to_live_job(verdict, facts), verdict)
    failed = join_failures([*facts.not_checked, *answers.not_checked, *gaps, *steps.failed])
    return withdraw_health(replace(verdict, not_checked=_once(failed)))


_NONE: list[NotChecked] = []
_STATE = say("how the job stands")


def run_detectors(facts: Facts, detectors: Sequence[Detector]) -> DetectorResults:
    """Run every detector; none knows of another, and one that fails costs only its own answer."""
    answers = DetectorResults()
    for detector in detectors:
        for answer in _results_of(detector, facts):
            if isinstance(answer, Signal):
                answers.findings.append(_with_nodes(grade_signal(answer, detector.name), facts))
            else:
                answers.not_checked.append(answer)
    return answers


def _with_nodes(finding: Finding, facts: Facts) -> Finding:
    """``finding`` with the nodes of its ranks, where the detector names none."""
    return finding if finding.nodes else replace(finding, nodes=hosts_of(facts, finding.ranks))


def _results_of(detector: Detector, facts: Facts) -> Iterator[DetectorResult]:
    try:
        yield from detector.check(facts)
    except MemoryError:
        raise  # not this detector's fault: the whole is too large
    except Exception as error:  # noqa: BLE001 - the boundary of one detector
        yield NotChecked.after(error, say("whether it is {causes}", causes=detector.cause.value), Certainty.LIKELY)


def certainty_limit(not_checked: Sequence[NotChecked], unread: Sequence[Unread] = ()) -> Certainty:
    """The most certain that anything may be, given what could not be looked at."""
    lost = any(item.failed or item.lost or item.rank is not None for item in unread)
    limit = Certainty.LIKELY if lost else Certainty.CERTAIN
    for gap in not_checked:
        if gap.caps is not None:
            limit = limit.capped(gap.caps)
    return limit


def _once(not_checked: Sequence[NotChecked]) -> tuple[NotChecked, ...]:
    """Each gap once; the same question asked by two detectors is one question."""
    seen: dict[str, NotChecked] = {}
    for gap in not_checked:
        seen.setdefault(str(gap.what), gap)
    return tuple(seen.values())
