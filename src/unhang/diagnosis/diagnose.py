"""Facts in, verdict out: run the rules, rank what they found, keep what could not be checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from unhang.diagnosis.gaps import gaps_of, stacks_wanted
from unhang.diagnosis.health import health_of, shown
from unhang.diagnosis.levels import at_moment_of_look
from unhang.diagnosis.machine_notes import noting_machines
from unhang.diagnosis.ranking import rank_findings
from unhang.diagnosis.repeated import noting_repeats, without_repeated
from unhang.diagnosis.restart import restart_after
from unhang.diagnosis.ruled_out import ruled_out_by
from unhang.diagnosis.state import status_of, unexplained, unproven
from unhang.diagnosis.times import stalled_since
from unhang.diagnosis.unproven import cap_unproven
from unhang.diagnosis.unseen_stacks import unseen_stacks
from unhang.facts.model import Facts
from unhang.findings import Certainty, Finding, NotChecked, Severity, Status, Verdict
from unhang.rules.all_rules import ALL_RULES
from unhang.rules.rule import Rule


@dataclass(slots=True)
class Answers:
    """What all rules said."""

    findings: list[Finding] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)


def diagnose(facts: Facts, rules: Sequence[Rule] = ALL_RULES) -> Verdict:
    """The verdict on ``facts``; the same for every order in which they were read."""
    answers = ask(facts, rules)
    not_checked = [*facts.not_checked, *answers.not_checked, *gaps_of(facts), *unseen_stacks(facts)]
    limit = certainty_limit(not_checked)
    findings = cap_unproven(facts, rank_findings(answers.findings, limit))
    if not findings:
        findings = unexplained(facts)
    health = health_of(facts)
    if not health.proof and all(finding.severity is Severity.NOTE for finding in findings):
        findings = (*findings, unproven(facts, health))
    not_checked.extend(stacks_wanted(facts, findings))
    findings = noting_machines(facts, noting_repeats(facts, findings))
    status = status_of(facts, findings, health)
    verdict = Verdict(
        status=status,
        world_size=facts.world_size,
        ranks_seen=facts.ranks_seen,
        ranks_missing=facts.ranks_missing,
        findings=findings,
        ruled_out=ruled_out_by(facts, findings, limit),
        not_checked=_once(not_checked),
        unread=tuple(dict.fromkeys(facts.unread)),
        restart=without_repeated(facts, findings, restart_after(findings, facts.checkpoints)),
        stalled_since=stalled_since(facts),
        checked=shown(health.proof) if status is Status.HEALTHY else (),
    )
    return at_moment_of_look(verdict, facts)


def ask(facts: Facts, rules: Sequence[Rule]) -> Answers:
    """Run every rule; none knows of another."""
    answers = Answers()
    for rule in rules:
        for answer in rule.check(facts):
            if isinstance(answer, Finding):
                answers.findings.append(answer)
            else:
                answers.not_checked.append(answer)
    return answers


def certainty_limit(not_checked: Sequence[NotChecked]) -> Certainty:
    """The most certain that anything may be, given what could not be looked at."""
    limit = Certainty.CERTAIN
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
