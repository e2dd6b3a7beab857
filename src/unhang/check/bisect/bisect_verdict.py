"""From a search to a verdict: what is wrong without settings, the smallest set that gets around it, and the repair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unhang.check.bisect.bisect import BisectResult, BisectTrial
from unhang.check.judge import judge
from unhang.check.probe_results.probe_results import ProbeResult
from unhang.check.probe_results.speeds import MB, fastest
from unhang.check.risks.risk import RiskRows
from unhang.findings import Cause, Finding, PassedCheck, Remedy, Severity, Status, Verdict
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.sentences import Text

CHECK = "probe"
MIN_GAIN = 1.5
"""So much faster without a setting is no noise."""
ROWS = RiskRows("bisect")


def verdict_of(search: BisectResult, node: str) -> Verdict:
    """The verdict of the probe, its first finding with the remedies that were found."""
    because = None if search.before is not None else Text("{reason}", {"reason": search.refused})
    result = InspectionResult(search.before, because)
    verdict = replace(judge([NodeInspection(node, results={ProbeResult: result})], [CHECK]), suggested=None)
    if search.before is None:
        return replace(verdict, status=Status.UNKNOWN)
    if not verdict.findings:
        return _as_it_is(verdict, search)
    first, *others = verdict.findings
    verdict = replace(verdict, findings=(_with_answer(first, search), *others))
    if search.out_of_time:
        gap = ROWS.could_not("settings-left", ROWS.words("time-was-up"), "unhang bisect --total 3600")
        verdict = replace(verdict, not_checked=(*verdict.not_checked, replace(gap, check=CHECK)))
    return verdict


def _as_it_is(verdict: Verdict, search: BisectResult) -> Verdict:
    """Nothing is recommended; settings that are there already are said to be needed, or not."""
    names = ", ".join(name for one in search.kept for name in one.set)
    fine: PassedCheck = ROWS.fine("needed", names=names) if search.kept else ROWS.fine("as-it-is")
    verdict = replace(verdict, checked=(*verdict.checked, replace(fine, check=CHECK)))
    if search.superfluous is None:
        return verdict
    finding = _superfluous(search.superfluous, search)
    status = verdict.status if finding.severity is Severity.NOTE else Status.MISCONFIGURED
    return replace(verdict, findings=(finding,), status=status)


def _superfluous(trial: BisectTrial, search: BisectResult) -> Finding:
    names = tuple(trial.set)
    before = fastest(search.before) if search.before is not None else None
    gain = trial.bus / before[1] if trial.bus is not None and before is not None else 1.0
    return ROWS.risk(
        "superfluous-and-slow" if gain >= MIN_GAIN else "superfluous",
        {"names": ", ".join(names), "gain": gain},
        cause=Cause(trial.settings[0].cause),
        check=CHECK,
        subject=names[0],
        remedies=(ROWS.remedy("take-out", unset=names),),
    )


def _with_answer(finding: Finding, search: BisectResult) -> Finding:
    because = [*finding.because, *_tried(search)]
    answer = search.answer
    if answer is None:
        if search.trials:
            because.append(ROWS.words("none-helped", count=len(search.trials)))
        # A search that is over does not recommend a search.
        remedies = [remedy for remedy in finding.remedies if str(remedy.change) != "unhang bisect"]
        return replace(finding, because=tuple(because), remedies=(*remedies, ROWS.remedy("look-at-path")))
    because += [ROWS.words("likely-reason", reason=setting.reason) for setting in answer.settings]
    if not search.again:
        because.append(ROWS.words("comes-and-goes"))
    causes = {setting.cause for setting in answer.settings}
    return replace(
        finding,
        cause=Cause(causes.pop()) if len(causes) == 1 else finding.cause,
        because=tuple(because),
        remedies=(
            _workaround(answer, search),
            *(ROWS.remedy("repair", {"repair": setting.repair}) for setting in answer.settings),
        ),
    )


def _tried(search: BisectResult) -> Iterator[Text]:
    most = max((trial.bus or 0.0 for trial in search.trials if trial.works), default=0.0)
    for trial in search.trials:
        names = settings_text(trial)
        if not trial.works:
            yield ROWS.words("does-not-help", names=names)
        elif trial.bus is None:
            yield ROWS.words("works", names=names)
        else:
            share = ROWS.words("share", percent=100 * trial.bus / most) if trial.bus < most else Text("")
            yield ROWS.words("works-at", names=names, bus=trial.bus / MB, share=share)


def settings_text(trial: BisectTrial) -> str:
    """``A=1 B=2``; a variable that is taken out is ``-C``, as ``env`` nearly writes it."""
    return " ".join(f"{name}={value}" if value else f"-{name}" for name, value in trial.set.items())


def _workaround(answer: BisectTrial, search: BisectResult) -> Remedy:
    set_to = {name: value for name, value in answer.set.items() if value}
    remedy = ROWS.remedy("set-nothing-else") if set_to else ROWS.remedy("take-out-instead")
    network = next((setting.network for setting in answer.settings if setting.network), "")
    if network:
        remedy = replace(remedy, change=ROWS.words("own-interface", network=network))
    if set_to:
        remedy = replace(remedy, cost=_cost(answer, search.before))
    return replace(remedy, set=set_to, unset=tuple(name for name, value in answer.set.items() if not value))


def _cost(answer: BisectTrial, before: ProbeResult | None) -> Text:
    off = "; ".join(setting.switches_off for setting in answer.settings)
    if answer.bus is None:
        return ROWS.words("switched-off", off=off)
    was = fastest(before) if before is not None and before.failure is None else None
    if was is not None:
        return ROWS.words("times-before", off=off, bus=answer.bus / MB, times=answer.bus / was[1])
    return ROWS.words("what-is-left", off=off, bus=answer.bus / MB)
