"""Facts in, verdict out: run the rules, rank what they found, keep what could not be checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from unhang.causes.detector import Answer, Rule, Signal
from unhang.causes.evidence_lines import hosts_of
from unhang.diagnosis.adjustments.after_timeout import noting_late_ends
from unhang.diagnosis.adjustments.by_elimination import naming_who_is_left
from unhang.diagnosis.adjustments.machine_notes import noting_machines
from unhang.diagnosis.adjustments.out_of_place import out_of_place
from unhang.diagnosis.adjustments.outlived import behind, noting_outlived
from unhang.diagnosis.adjustments.repeat_offenders import noting_repeats, without_repeated
from unhang.diagnosis.adjustments.severity_while_running import at_moment_of_look
from unhang.diagnosis.adjustments.unverified_claims import cap_unproven
from unhang.diagnosis.context.health import Health, health_of, shown
from unhang.diagnosis.context.missing_evidence import end_wanted, gaps_of, stacks_wanted
from unhang.diagnosis.context.restart_advice import restart_after
from unhang.diagnosis.context.ruled_out import ruled_out_by
from unhang.diagnosis.context.unreadable_stacks import unseen_stacks
from unhang.diagnosis.detectors import ALL_RULES
from unhang.diagnosis.differential import with_differential
from unhang.diagnosis.grades import graded
from unhang.diagnosis.internal_failures import joined, without_health_of_the_rest
from unhang.diagnosis.ranking import rank_findings
from unhang.diagnosis.stall_start import stalled_since
from unhang.diagnosis.state import status_of, unexplained, unproven
from unhang.facts.fault_isolation import Steps
from unhang.facts.model import Facts
from unhang.findings import Certainty, Finding, NotChecked, Restart, Severity, Status, Unread, Verdict, say


@dataclass(slots=True)
class Answers:
    """What all rules said."""

    findings: list[Finding] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)


def diagnose(facts: Facts, rules: Sequence[Rule] = ALL_RULES) -> Verdict:
    """The verdict on ``facts``; the same for every order in which they were read."""
    shown = what_is_shown(facts, rules)
    steps = Steps()
    usual = steps.made(say("what usually lies behind it"), lambda: with_differential(shown, facts), shown)
    who = say("which rank it was")
    verdict = replace(
        usual, findings=steps.made(who, lambda: naming_who_is_left(facts, usual.findings), usual.findings)
    )
    return replace(verdict, not_checked=(*verdict.not_checked, *steps.failed))


def what_is_shown(facts: Facts, rules: Sequence[Rule] = ALL_RULES) -> Verdict:
    """The verdict on what the evidence shows by itself, without what known incidents make likely."""
    answers = ask(facts, rules)
    steps = Steps()
    made = steps.made
    gaps: list[NotChecked] = [*made(say("what is missing"), lambda: [*gaps_of(facts), *unseen_stacks(facts)], _NONE)]
    limit = certainty_limit([*facts.not_checked, *answers.not_checked, *gaps], facts.unread)
    findings = rank_findings(cap_unproven(facts, out_of_place(facts, tuple(answers.findings))), limit)
    findings = made(say("what the job outlived"), lambda: noting_outlived(facts, findings), findings)
    if not findings:
        findings = made(_STATE, lambda: unexplained(facts), ())
    health = made(_STATE, lambda: health_of(facts), Health(()))
    if not health.proof and all(finding.severity is Severity.NOTE for finding in findings):
        findings = behind(facts, unproven(facts, health), findings)
    gaps += made(say("what is missing"), lambda: [*stacks_wanted(facts, findings), *end_wanted(facts, findings)], _NONE)
    findings = made(
        say("what machines tell"), lambda: noting_machines(facts, noting_repeats(facts, findings)), findings
    )
    findings = made(say("which rank it was"), lambda: naming_who_is_left(facts, findings), findings)
    findings = made(say("what came after the limit"), lambda: noting_late_ends(facts, findings), findings)
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
            lambda: without_repeated(facts, findings, restart_after(findings, facts.checkpoints)),
            Restart(),
        ),
        stalled_since=made(say("since when"), lambda: stalled_since(facts), None),
        checked=shown(health.proof) if status is Status.HEALTHY else (),
    )
    verdict = made(say("how bad it is at this moment"), lambda: at_moment_of_look(verdict, facts), verdict)
    failed = joined([*facts.not_checked, *answers.not_checked, *gaps, *steps.failed])
    return without_health_of_the_rest(replace(verdict, not_checked=_once(failed)))


_NONE: list[NotChecked] = []
_STATE = say("how the job stands")


def ask(facts: Facts, rules: Sequence[Rule]) -> Answers:
    """Run every rule; none knows of another, and one that fails costs only its own answer."""
    answers = Answers()
    for rule in rules:
        for answer in _answers(rule, facts):
            if isinstance(answer, Signal):
                answers.findings.append(_with_nodes(graded(answer, rule.name), facts))
            else:
                answers.not_checked.append(answer)
    return answers


def _with_nodes(finding: Finding, facts: Facts) -> Finding:
    """``finding`` with the nodes of its ranks, where the detector names none."""
    return finding if finding.nodes else replace(finding, nodes=hosts_of(facts, finding.ranks))


def _answers(rule: Rule, facts: Facts) -> Iterator[Answer]:
    try:
        yield from rule.check(facts)
    except MemoryError:
        raise  # not this rule's fault: the whole is too large
    except Exception as error:  # noqa: BLE001 - the boundary of one rule
        yield NotChecked.after(error, say("whether it is {causes}", causes=rule.cause.value), Certainty.LIKELY)


def certainty_limit(not_checked: Sequence[NotChecked], unread: Sequence[Unread] = ()) -> Certainty:
    """The most certain that anything may be, given what could not be looked at."""
    lost = any(item.failed or item.lost or item.rank is not None for item in unread)
    limit = Certainty.LIKELY if lost else Certainty.CERTAIN
    for gap in not_checked:
        if gap.caps is not None:
            limit = limit.capped(gap.caps)
    return limit


def _once(not_checked: Sequence[NotChecked]) -> tuple[NotChecked, ...]:
    """Each gap once; the same question asked by two rules is one question."""
    seen: dict[str, NotChecked] = {}
    for gap in not_checked:
        seen.setdefault(str(gap.what), gap)
    return tuple(seen.values())
