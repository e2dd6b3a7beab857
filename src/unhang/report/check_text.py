"""The answers of ``unhang check``: what is wrong and what to change, what it could not look at, what is fine."""

from __future__ import annotations

from itertools import groupby

from rich.text import Text as Styled

from unhang.findings import Finding, Severity, Status, Verdict
from unhang.report import labels
from unhang.report.layout.text_layout import TextLayout
from unhang.report.localizer import Localizer
from unhang.report.text import write_change, write_gap
from unhang.sentences import say

_OF_SETTINGS = ("environment", "timers", "devices")
_MARKS = {Severity.STOPS: ("✗", "bold red"), Severity.SLOWS: ("!", "bold yellow"), Severity.NOTE: ("·", "dim")}


def check_layout(verdict: Verdict, localizer: Localizer, width: int) -> TextLayout:
    """All of a check's ``verdict`` on one sheet."""
    layout = TextLayout(width)
    style = "bold green" if verdict.status is Status.HEALTHY else "bold yellow"
    head = Styled(localizer.say(labels.STATUS[verdict.status]), style)
    layout.paragraph(head.append("  ").append(_headline(verdict, localizer), "bold"), indent=0)
    for finding in verdict.findings:
        _finding(layout, finding, localizer)
    _block(layout, verdict, localizer)
    _gaps(layout, verdict, localizer)
    _passed_checks(layout, verdict, localizer)
    return layout


def _headline(verdict: Verdict, localizer: Localizer) -> str:
    stops = sum(finding.severity is Severity.STOPS for finding in verdict.findings)
    slows = sum(finding.severity is Severity.SLOWS for finding in verdict.findings)
    if stops and slows:
        text = say("Would stop this job: {stops}. Would slow it: {slows}.", stops=stops, slows=slows)
    elif stops:
        text = say("Would stop this job: {stops}.", stops=stops)
    elif slows:
        text = say("Would slow this job: {slows}.", slows=slows)
    elif verdict.status is Status.UNKNOWN:
        text = say("Nothing was found, and not enough could be looked at to say that the job will run well.")
    else:
        text = say("Nothing found that would stop or slow this job.")
    return localizer.say(text)


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
    if verdict.suggested is None:
        return
    layout.heading(localizer.say(say("Paste this instead")))
    layout.verbatim(localizer.clean(verdict.suggested.text))


def _gaps(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    if not verdict.not_checked:
        return
    layout.heading(localizer.say(say("Could not look")))
    for item in verdict.not_checked:
        write_gap(layout, item, localizer, "? ")


def _passed_checks(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    if not verdict.checked:
        return
    layout.heading(localizer.say(say("Fine")))
    for check, items in groupby(sorted(verdict.checked, key=lambda item: item.check), key=lambda item: item.check):
        said = localizer.say(say("; ")).join(localizer.say(item.what) for item in items)
        layout.paragraph(f"{check}{localizer.colon}{said}", lead="✓ ")
