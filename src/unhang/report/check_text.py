"""The answers of ``unhang check``: what is wrong and what to change, what it could not look at, what is fine."""

from __future__ import annotations

from itertools import groupby

from rich.text import Text as Styled

from unhang.findings import Finding, Grade, Severity, Status, Verdict
from unhang.report import labels
from unhang.report.layout.text_layout import TextLayout
from unhang.report.localizer import Localizer
from unhang.report.text import write_change, write_gap
from unhang.sentences import say

_OF_SETTINGS = ("environment", "timers", "devices")
_MARKS = {Severity.STOPS: ("✗", "bold red"), Severity.SLOWS: ("!", "bold yellow"), Severity.NOTE: ("·", "dim")}


def check_layout(verdict: Verdict, localizer: Localizer, width: int, *, details: bool = False) -> TextLayout:
    """A check's ``verdict`` on one sheet; of what is fine its ``details`` only where they are asked for."""
    layout = TextLayout(width)
    style = "bold green" if verdict.status is Status.HEALTHY else "bold yellow"
    head = Styled(localizer.say(labels.STATUS[verdict.status]), style)
    layout.paragraph(head.append("  ").append(_headline(verdict, localizer), "bold"), indent=0)
    for finding in verdict.findings:
        _finding(layout, finding, localizer)
    _block(layout, verdict, localizer)
    _gaps(layout, verdict, localizer)
    _passed_checks(layout, verdict, localizer, details=details)
    return layout


def _headline(verdict: Verdict, localizer: Localizer) -> str:
    stops, slows, notes = (sum(one.severity is weight for one in verdict.findings) for weight in Severity)
    if verdict.lead is None:
        fine = say("Nothing found that would stop or slow this job.")
        unsure = say("No problem found, but too little could be checked to say that the job will run well.")
        return localizer.say(unsure if verdict.status is Status.UNKNOWN else fine)
    count = stops or slows
    text = localizer.say(say("1 problem") if count == 1 else say("{count} problems", count=count))
    sure = say(" may stop this job") if verdict.lead.grade is Grade.BASE_RATE else say(" would stop this job")
    text += localizer.say(sure if stops else say(" would slow this job"))
    text += localizer.say(say(", {count} would slow it", count=slows)) if stops and slows else ""
    text += localizer.parenthesized(localizer.say(say("and {count} to look at", count=notes))) if notes else ""
    worst = localizer.line(localizer.say(verdict.lead.summary))
    place = localizer.clean(verdict.lead.subject if verdict.lead.where is not None else _place(verdict.lead))
    if place not in worst:
        worst = localizer.say(say("{worst}, {place}", worst=worst, place=place))
    return text + localizer.colon + worst


def _finding(layout: TextLayout, finding: Finding, localizer: Localizer) -> None:
    mark, style = _MARKS[finding.severity]
    layout.lines.append(Styled())
    title = Styled(localizer.sentence(finding.summary), "" if finding.severity is Severity.NOTE else "bold")
    layout.paragraph(title, indent=0, lead=f"{mark} ")
    label = f"{finding.check} · {localizer.clean(finding.subject)} · {finding.cause.value}"
    label += f" · {localizer.clean(place)}" if (place := _place(finding)) else ""
    nodes = f" · {localizer.line(', '.join(finding.nodes))}" if finding.nodes else ""
    layout.paragraph(label + nodes, style=style if finding.severity is Severity.STOPS else "dim")
    for text in finding.because:
        layout.paragraph(localizer.sentence(text), lead="• ")
    for number, remedy in enumerate(finding.remedies):
        lead = say("Change: ") if number == 0 else say("Or: ")
        layout.paragraph(localizer.sentence(remedy.title), lead=localizer.say(lead))
        write_change(layout, remedy, localizer)
        if str(remedy.cost).strip():
            layout.paragraph(localizer.say(remedy.cost), lead=localizer.say(say("Costs: ")), indent=4)


def _place(finding: Finding) -> str:
    """Where a variable is set that a script sets; a finding about the program has its place in its subject."""
    places = (f"{one.source.path}:{one.source.line}" for one in finding.evidence if one.source.line is not None)
    return next((place for place in places if finding.check in _OF_SETTINGS and place not in finding.subject), "")


def _block(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    if verdict.suggested is not None:
        layout.heading(localizer.say(say("Paste this instead")))
        unless = verdict.suggested.unless
        comment = "" if unless is None else f"# {localizer.line(localizer.say(unless))}\n"
        layout.verbatim(comment + localizer.clean(verdict.suggested.text))


def _gaps(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    if verdict.not_checked:
        layout.heading(localizer.say(say("Not checked")))
    for item in verdict.not_checked:
        write_gap(layout, item, localizer, "? ")


def _passed_checks(layout: TextLayout, verdict: Verdict, localizer: Localizer, *, details: bool) -> None:
    hidden = not details and any(item.detail for item in verdict.checked)
    if verdict.checked:
        layout.heading(localizer.say(say("Fine")), localizer.say(say("details: --verbose")) if hidden else "")
    for check, items in groupby(sorted(verdict.checked, key=lambda item: item.check), key=lambda item: item.check):
        shown = [localizer.say(item.what) for item in items if details or not item.detail]
        said = localizer.colon + localizer.say(say("; ")).join(shown) if shown else ""
        layout.paragraph(check + said, lead="✓ ")
