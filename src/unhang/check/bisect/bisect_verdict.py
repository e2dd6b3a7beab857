"""From a search to a verdict: what is wrong without settings, the smallest set that gets around it, and the repair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unhang.check.bisect.bisect import BisectResult, BisectTrial
from unhang.check.judge import judge
from unhang.check.probe_results.expected_speed import MB, fastest
from unhang.check.probe_results.probe_results import ProbeResult
from unhang.findings import (
    Cause,
    Certainty,
    Finding,
    NotChecked,
    PassedCheck,
    Remedy,
    RemedyKind,
    Severity,
    Status,
    Verdict,
)
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.sentences import Text, say

CHECK = "probe"
MIN_GAIN = 1.5
"""So much faster without a setting is no noise."""


def verdict_of(search: BisectResult, node: str) -> Verdict:
    """The verdict of the probe, its first finding with the remedies that were found."""
    result: InspectionResult[ProbeResult] = (
        InspectionResult(search.before)
        if search.before is not None
        else InspectionResult(because=say("{reason}", reason=search.refused))
    )
    verdict = replace(judge([NodeInspection(node, results={ProbeResult: result})], [CHECK]), suggested=None)
    if search.before is None:
        return replace(verdict, status=Status.UNKNOWN)
    if not verdict.findings:
        return _as_it_is(verdict, search)
    first, *others = verdict.findings
    verdict = replace(verdict, findings=(_with_answer(first, search), *others))
    if search.out_of_time:
        what = say("The settings that are left")
        gap = NotChecked(what, say("the time was up"), "unhang bisect --total 3600", check=CHECK)
        verdict = replace(verdict, not_checked=(*verdict.not_checked, gap))
    return verdict


def _as_it_is(verdict: Verdict, search: BisectResult) -> Verdict:
    """Nothing is recommended; settings that are there already are said to be needed, or not."""
    checked = [*verdict.checked]
    findings: tuple[Finding, ...] = ()
    if search.kept:
        names = ", ".join(name for one in search.kept for name in one.set)
        checked.append(
            PassedCheck(CHECK, say("{names} set here is needed: without it the ranks do not work", names=names))
        )
    else:
        checked.append(
            PassedCheck(CHECK, say("everything works as it is: no setting is needed, and none is recommended"))
        )
    if search.superfluous is not None:
        findings = (_superfluous(search.superfluous, search),)
    wrong = any(finding.severity is not Severity.NOTE for finding in findings)
    status = Status.MISCONFIGURED if wrong else verdict.status
    return replace(verdict, checked=tuple(checked), findings=findings, status=status)


def _superfluous(trial: BisectTrial, search: BisectResult) -> Finding:
    names = tuple(trial.set)
    before = fastest(search.before) if search.before is not None else None
    gain = trial.bus / before[1] if trial.bus is not None and before is not None else 1.0
    slows = gain >= MIN_GAIN
    return Finding(
        Cause(trial.settings[0].cause),
        Certainty.LIKELY,
        Severity.SLOWS if slows else Severity.NOTE,
        say("{names} can go: it works without, {gain:.1f} times as fast", names=", ".join(names), gain=gain)
        if slows
        else say("{names} can go: it works as well without", names=", ".join(names)),
        check=CHECK,
        subject=names[0],
        remedies=(
            Remedy(
                say("Take it out"),
                RemedyKind.ENVIRONMENT,
                Text(""),
                say("none where it is not needed"),
                say("unhang check --only probe"),
                unset=names,
            ),
        ),
    )


def _with_answer(finding: Finding, search: BisectResult) -> Finding:
    because = (*finding.because, *_tried(search))
    if search.answer is None:
        if search.trials:
            because = (*because, say("None of {count} trials helped", count=len(search.trials)))
        return replace(finding, because=because, remedies=tuple(_without_bisect(finding)))
    causes = {setting.cause for setting in search.answer.settings}
    return replace(
        finding,
        cause=Cause(causes.pop()) if len(causes) == 1 else finding.cause,
        because=(*because, *_reasons(search.answer), *_came_back(search)),
        remedies=(_workaround(search.answer, search), *_repairs(search.answer)),
    )


def _without_bisect(finding: Finding) -> Iterator[Remedy]:
    """A search that is over does not recommend a search."""
    yield from (remedy for remedy in finding.remedies if str(remedy.change) != "unhang bisect")
    yield Remedy(
        say("Look at the path itself"),
        RemedyKind.COLLECT,
        say("NCCL_DEBUG=INFO on one node, nc between nodes; unhang check --only network,topology"),
        say("none"),
        say("unhang check --only probe"),
    )


def _tried(search: BisectResult) -> Iterator[Text]:
    for trial in search.trials:
        names = settings_text(trial)
        if not trial.works:
            yield say("{names}: does not help", names=names)
        elif trial.bus is None:
            yield say("{names}: works", names=names)
        else:
            yield say(
                "{names}: works, {bus:.1f} MB/s{share}", names=names, bus=trial.bus / MB, share=_share(trial, search)
            )


def settings_text(trial: BisectTrial) -> str:
    """``A=1 B=2``; a variable that is taken out is ``-C``, as ``env`` nearly writes it."""
    return " ".join(f"{name}={value}" if value else f"-{name}" for name, value in trial.set.items())


def _share(trial: BisectTrial, search: BisectResult) -> Text:
    """Beside the fastest way that works."""
    most = max(one.bus or 0.0 for one in search.trials if one.works)
    if trial.bus is None or trial.bus >= most:
        return Text("")
    return say(" ({percent:.0f} % of the fastest)", percent=100 * trial.bus / most)


def _reasons(answer: BisectTrial) -> Iterator[Text]:
    for setting in answer.settings:
        yield say("Likely reason: {reason}", reason=setting.reason)


def _came_back(search: BisectResult) -> Iterator[Text]:
    if not search.again:
        yield say("At the end it worked without any setting as well: the fault comes and goes")


def _workaround(answer: BisectTrial, search: BisectResult) -> Remedy:
    off = "; ".join(setting.switches_off for setting in answer.settings)
    before = fastest(search.before) if search.before is not None else None
    if not any(answer.set.values()):
        cost = say("none")
    elif answer.bus is None:
        cost = say("switched off: {off}", off=off)
    elif before is not None and search.before is not None and search.before.failure is None:
        cost = say(
            "switched off: {off}; {bus:.1f} MB/s, {times:.1f} times what it was before",
            off=off,
            bus=answer.bus / MB,
            times=answer.bus / before[1],
        )
    else:
        cost = say("switched off: {off}; {bus:.1f} MB/s is what is left", off=off, bus=answer.bus / MB)
    network = next((setting.network for setting in answer.settings if setting.network), "")
    change = say("on every node its own interface in {network}; here:", network=network) if network else Text("")
    return Remedy(
        say("Until it is repaired, set this and nothing else") if any(answer.set.values()) else say("Take it out"),
        RemedyKind.ENVIRONMENT,
        change,
        cost,
        say("unhang check --only probe, with it set"),
        set={name: value for name, value in answer.set.items() if value},
        unset=tuple(name for name, value in answer.set.items() if not value),
    )


def _repairs(answer: BisectTrial) -> Iterator[Remedy]:
    for setting in answer.settings:
        yield Remedy(
            say("Repair the reason"),
            RemedyKind.INFRASTRUCTURE,
            say("{repair}", repair=setting.repair),
            say("none"),
            say("unhang bisect finds nothing to recommend"),
        )
