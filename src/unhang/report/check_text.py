"""The answers of ``unhang check``: what is wrong and what to change, what it could not look at, what is fine."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import IO

from rich.text import Text as Styled

from unhang.findings import Finding, Severity, Status, Verdict
from unhang.report import labels
from unhang.report.change_text import write_change
from unhang.report.layout.text_layout import TextLayout, width_of
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.sentences import say

_OF_SETTINGS = ("environment", "timers", "devices")
_MARKS = {Severity.STOPS: ("✗", "bold red"), Severity.SLOWS: ("!", "bold yellow"), Severity.NOTE: ("·", "dim")}


def print_check(
    verdict: Verdict, *, lang: str = "en", file: IO[str] | None = None, redactor: Redactor | None = None
) -> None:
    """Print ``verdict`` of a check: colours and the terminal's width on a terminal, plain 80 columns elsewhere."""
    file = sys.stdout if file is None else file
    _layout(verdict, Localizer(lang, redactor or Redactor()), width_of(file)).print_to(file)


def _layout(verdict: Verdict, voice: Localizer, width: int) -> TextLayout:
    sheet = TextLayout(width)
    style = "bold green" if verdict.status is Status.HEALTHY else "bold yellow"
    head = (
        Styled(voice.say(labels.STATUS[verdict.status]), style).append("  ").append(_headline(verdict, voice), "bold")
    )
    sheet.paragraph(head, indent=0)
    for finding in verdict.findings:
        _finding(sheet, finding, voice)
    _block(sheet, verdict, voice)
    _gaps(sheet, verdict, voice)
    _passed_checks(sheet, verdict, voice)
    return sheet


def _headline(verdict: Verdict, voice: Localizer) -> str:
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
    return voice.say(text)


def _finding(sheet: TextLayout, finding: Finding, voice: Localizer) -> None:
    mark, style = _MARKS[finding.severity]
    sheet.lines.append(Styled())
    title = Styled(voice.sentence(finding.summary), "" if finding.severity is Severity.NOTE else "bold")
    sheet.paragraph(title, indent=0, lead=f"{mark} ")
    label = f"{finding.check} · {voice.clean(finding.subject)} · {finding.cause.value}"
    label += f" · {voice.clean(place)}" if (place := _place(finding)) else ""
    nodes = f" · {voice.line(', '.join(finding.nodes))}" if finding.nodes else ""
    sheet.paragraph(label + nodes, style=style if finding.severity is Severity.STOPS else "dim")
    for text in finding.because:
        sheet.paragraph(voice.sentence(text), lead="• ")
    for number, remedy in enumerate(finding.remedies):
        lead = say("Change: ") if number == 0 else say("Or: ")
        sheet.paragraph(voice.sentence(remedy.title), lead=voice.say(lead))
        write_change(sheet, remedy, voice)
        if str(remedy.cost).strip():
            sheet.paragraph(voice.say(remedy.cost), lead=voice.say(say("Costs: ")), indent=4)


def _place(finding: Finding) -> str:
    """Where a variable is set that a script sets; a finding about the program has its place in its subject."""
    places = (f"{one.source.path}:{one.source.line}" for one in finding.evidence if one.source.line is not None)
    return next((place for place in places if finding.check in _OF_SETTINGS and place not in finding.subject), "")


def _block(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    if verdict.suggested is None:
        return
    sheet.heading(voice.say(say("Paste this instead")))
    sheet.verbatim(voice.clean(verdict.suggested.text))


def _gaps(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    if not verdict.not_checked:
        return
    sheet.heading(voice.say(say("Could not look")))
    for item in verdict.not_checked:
        parts = {"what": voice.sentence(item.what), "because": voice.line(voice.say(item.because))}
        sheet.paragraph(voice.say(say("{what}: {because}", **parts)), lead="? ")
        if item.how:
            sheet.command(voice.command(item.how), indent=4)


def _passed_checks(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    if not verdict.checked:
        return
    sheet.heading(voice.say(say("Fine")))
    for check, items in groupby(sorted(verdict.checked, key=lambda item: item.check), key=lambda item: item.check):
        said = voice.say(say("; ")).join(voice.say(item.what) for item in items)
        sheet.paragraph(f"{check}{voice.colon}{said}", lead="✓ ")
