"""The verdict as text: one screen, first what it is and what to do, then why, then everything else in one line each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import IO

from rich.text import Text as Styled

from unhang.facts.model import Facts
from unhang.findings import Consequence, Finding, NotChecked, Remedy, Source, Status, Verdict, Where
from unhang.report import labels
from unhang.report.change_text import write_change
from unhang.report.layout.durations import duration
from unhang.report.layout.sections import write_section
from unhang.report.layout.source_lines import source_lines
from unhang.report.layout.text_layout import TextLayout, width_of
from unhang.report.localizer import Localizer
from unhang.report.place_heading import place_heading
from unhang.report.redaction.redact import Redactor
from unhang.report.redaction.shown_paths import common_folder, without_library_roots
from unhang.sentences import Text, say

EVIDENCE_SHOWN, OTHERS_SHOWN, NOT_CHECKED_SHOWN, UNREAD_SHOWN = 6, 4, 3, 4
_STYLES = {
    Status.HANG: "bold red",
    Status.CRASH: "bold red",
    Status.SLOW: "bold yellow",
    Status.MISCONFIGURED: "bold yellow",
    Status.HEALTHY: "bold green",
    Status.UNKNOWN: "bold magenta",
}


def to_text(
    verdict: Verdict,
    facts: Facts | None = None,
    *,
    lang: str = "en",
    width: int = 80,
    redactor: Redactor | None = None,
) -> str:
    """``verdict`` as plain text without colour, no line wider than ``width`` cells (at least 40)."""
    return _layout(verdict, facts, _localizer(verdict, facts, lang, redactor), width).plain()


def print_text(
    verdict: Verdict,
    facts: Facts | None = None,
    *,
    lang: str = "en",
    file: IO[str] | None = None,
    redactor: Redactor | None = None,
) -> None:
    """Print ``verdict``: colours and the terminal's width (at most 100) on a terminal, plain 80 columns elsewhere.

    ``NO_COLOR`` is honoured; an encoding that lacks a sign gets its ASCII stand-in, never an error.
    """
    file = sys.stdout if file is None else file
    _layout(verdict, facts, _localizer(verdict, facts, lang, redactor), width_of(file)).print_to(file)


def _localizer(verdict: Verdict, facts: Facts | None, lang: str, redactor: Redactor | None) -> Localizer:
    voice = Localizer(lang, redactor or Redactor())
    voice.redactor.learn_from(verdict, facts)
    return voice


def _layout(verdict: Verdict, facts: Facts | None, voice: Localizer, width: int) -> TextLayout:
    sheet = TextLayout(width)
    sections: list[tuple[str, Callable[[], None]]] = [("headline", lambda: _headline(sheet, verdict, voice))]
    if verdict.findings:
        first = verdict.findings[0]
        sections += [
            ("action", lambda: _action(sheet, first, voice)),
            ("what it may be", lambda: _differential(sheet, verdict, voice)),
            ("why", lambda: _why(sheet, first, voice)),
            ("place", lambda: _place(sheet, first, facts, voice)),
            ("evidence", lambda: _evidence(sheet, first, voice)),
            ("consequences", lambda: _consequences(sheet, first, voice)),
        ]
    sections += [
        ("shown", lambda: _proof(sheet, verdict, voice)),
        ("others", lambda: _others(sheet, verdict, voice)),
        ("ruled out", lambda: _ruled_out(sheet, verdict, voice)),
        ("not checked", lambda: _not_checked(sheet, verdict, voice)),
        ("unread", lambda: _unread(sheet, verdict, voice)),
        ("closing", lambda: _closing(sheet, verdict, voice)),
    ]
    for name, write in sections:
        gap = write_section(name, write)
        if gap is not None:
            sheet.paragraph(gap_line(gap, voice))
    return sheet


def gap_line(gap: NotChecked, voice: Localizer) -> str:
    """A section that could not be written, in one line."""
    return voice.line(
        voice.say(say("{what}: {because}", what=voice.sentence(gap.what), because=voice.say(gap.because)))
    )


def _headline(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    word = voice.say(labels.STATUS[verdict.status])
    title = Styled(word, _STYLES[verdict.status]).append("  ").append(voice.sentence(labels.headline(verdict)), "bold")
    sheet.paragraph(title, indent=0)
    if not verdict.findings:
        return
    first = verdict.findings[0]
    parts = [first.cause.value, voice.say(labels.CERTAINTY[first.certainty])]
    if first.ranks:
        parts.append(voice.say(labels.ranks_label(first.ranks)))
    if first.nodes:
        parts.append(voice.line(", ".join(first.nodes)))
    if first.where is not None:
        parts.append(voice.place(first.where).rsplit("/", 1)[-1])
    sheet.paragraph(" · ".join(parts), indent=0, style="dim" if verdict.status is Status.HEALTHY else "")
    _times(sheet, verdict, voice)


def _times(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    parts: list[Text] = []
    if verdict.stalled_since:
        parts.append(say("stalled since {time}", time=verdict.stalled_since))
    if verdict.noticed_after_s is not None:
        parts.append(say("noticed after {time}", time=duration(verdict.noticed_after_s)))
    if verdict.killed_in_s is not None and verdict.gives_up:
        parts.append(say("{guard} gives up in {time}", guard=verdict.gives_up, time=duration(verdict.killed_in_s)))
    elif verdict.killed_in_s is not None:
        parts.append(say("killed by its own watchdog in {time}", time=duration(verdict.killed_in_s)))
    if parts:
        sheet.paragraph(" · ".join(voice.say(part) for part in parts), indent=0, style="dim")


def _action(sheet: TextLayout, finding: Finding, voice: Localizer) -> None:
    if not finding.remedies:
        return
    sheet.heading(voice.say(labels.action_heading(finding)))
    _remedy(sheet, finding.remedies[0], voice)
    for remedy in finding.remedies[1:]:
        sheet.paragraph(voice.sentence(remedy.title), lead=voice.say(say("Or: ")))


def _remedy(sheet: TextLayout, remedy: Remedy, voice: Localizer) -> None:
    sheet.paragraph(voice.sentence(remedy.title), style="bold")
    write_change(sheet, remedy, voice)
    for label, text in ((say("Costs: "), remedy.cost), (say("Check: "), remedy.verify)):
        if str(text).strip():
            sheet.paragraph(voice.say(text), lead=voice.say(label))


def _why(sheet: TextLayout, finding: Finding, voice: Localizer) -> None:
    if not finding.because:
        return
    sheet.heading(voice.say(say("Why")))
    for text in finding.because:
        sheet.paragraph(voice.sentence(text), lead="• ")


def _place(sheet: TextLayout, finding: Finding, facts: Facts | None, voice: Localizer) -> None:
    if finding.where is not None:
        _call_site(sheet, voice.say(place_heading(finding, facts)), finding.where, facts, voice)
    if finding.waiter_where is not None and finding.waiter_where != finding.where:
        _call_site(sheet, voice.say(say("The others wait here")), finding.waiter_where, facts, voice, around=1)


def _call_site(
    sheet: TextLayout, who: str, where: Where, facts: Facts | None, voice: Localizer, around: int = 2
) -> None:
    sheet.heading(who)
    place = Styled(voice.place(where), "bold")
    if where.function:
        place.append(f"  in {voice.line(where.function)}", "dim")
    sheet.paragraph(place)
    for line in source_lines(facts, where, around):
        mark = "▸" if line.hit else " "
        text = f"{mark} {line.number:>5} │ {voice.clean(line.text)}".rstrip()
        sheet.code(text, indent=2, style="bold" if line.hit else "dim")


def _evidence(sheet: TextLayout, finding: Finding, voice: Localizer) -> None:
    if not finding.evidence:
        return
    folder = evidence_folder([finding], voice)
    sheet.heading(voice.say(say("Evidence")), voice.say(say("in {folder}", folder=folder)) if folder else "")
    room = sheet.width * 2 - 12  # two lines, some room lost to wrapping
    for item in finding.evidence[:EVIDENCE_SHOWN]:
        lead = source_label(item.source, voice, folder)
        text = (
            Styled(lead, "cyan")
            .append("  ")
            .append(voice.line(without_library_roots(item.text), max(40, room - len(lead))))
        )
        sheet.paragraph(text)
    _more(sheet, len(finding.evidence) - EVIDENCE_SHOWN, voice)


def evidence_folder(findings: Sequence[Finding], voice: Localizer) -> str:
    """The folder the findings' evidence shares; empty when sharing, for what is left of a path could name something."""
    if voice.redactor.share:
        return ""
    return common_folder(item.source.path for finding in findings for item in finding.evidence)


def source_label(source: Source, voice: Localizer, folder: str = "") -> str:
    """``rank3.log:120``, ``dump_7 (byte 8192)`` or the bare path; ``folder`` is said elsewhere and left out."""
    path = voice.line(source.path.removeprefix(folder))
    if source.line is not None:
        return f"{path}:{source.line}"
    if source.byte is not None and source.byte >= 0:
        return voice.say(say("{path} (byte {byte})", path=path, byte=source.byte))
    return path


def _more(sheet: TextLayout, count: int, voice: Localizer) -> None:
    if count > 0:
        sheet.paragraph(voice.say(say("and {count} more: --format json", count=count)), style="dim")


def _consequences(sheet: TextLayout, finding: Finding, voice: Localizer) -> None:
    if not finding.consequences:
        return
    parts = [consequence_line(item, voice) for item in finding.consequences]
    sheet.heading(voice.say(say("What followed from it")))
    sheet.paragraph(voice.say(say("; ")).join(parts))


def consequence_line(item: Consequence, voice: Localizer) -> str:
    """``63 × rank-crashed (ranks 0-62)``, or the rule's own words."""
    if item.summary is not None:
        return voice.line(voice.say(item.summary))
    ranks = voice.parenthesized(voice.say(labels.ranks_label(item.ranks))) if item.ranks else ""
    return f"{item.count} × {item.cause.value}{ranks}"


def _others(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    others = verdict.findings[1:]
    if not others:
        return
    sheet.heading(voice.say(say("Also found")))
    for finding in others[:OTHERS_SHOWN]:
        sheet.paragraph(other_line(finding, voice), lead="• ")
    _more(sheet, len(others) - OTHERS_SHOWN, voice)


def other_line(finding: Finding, voice: Localizer) -> str:
    """A finding that is not the verdict, in one line."""
    place = f" · {voice.place(finding.where)}" if finding.where is not None else ""
    certainty = voice.say(labels.CERTAINTY[finding.certainty])
    summary = voice.line(voice.say(finding.summary), 240)
    return f"{finding.cause.value}{voice.parenthesized(certainty)}{voice.colon}{summary}{place}"


def _proof(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    if not verdict.checked:
        return
    sheet.heading(voice.say(say("What shows that the job is well")))
    for item in verdict.checked:
        sheet.paragraph(voice.sentence(item.what), lead="• ")


def _differential(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    if not verdict.differential:
        return
    sheet.heading(voice.say(say("What it may be, by what known incidents that looked like this were")))
    for candidate in verdict.differential:
        sheet.paragraph(Styled(voice.say(labels.share_text(candidate)), "bold"), lead="• ")
        sheet.paragraph(voice.say(say("To settle it: {what}", what=voice.say(candidate.settles))), indent=4)
        if candidate.how:
            sheet.command(voice.command(candidate.how), indent=4)
        for because in candidate.because[:1]:
            sheet.paragraph(voice.sentence(because), indent=4)
    if verdict.incidents:
        sheet.heading(voice.say(say("Known incidents that look like this")))
    for incident in verdict.incidents:
        told = f"{incident.cause.value}{voice.colon}{voice.line(incident.happened, 200)}"
        sheet.paragraph(told, lead="• ")
        sheet.paragraph(voice.say(say("What ended it: {fixed}", fixed=voice.line(incident.fixed, 200))), indent=4)
        sheet.paragraph(incident.link, indent=4)


def _ruled_out(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    if not verdict.ruled_out:
        return
    sheet.heading(voice.say(say("Ruled out")))
    for because, items in groupby(verdict.ruled_out, key=lambda item: item.because):
        causes = ", ".join(item.cause.value for item in items)
        sheet.paragraph(f"{causes}{voice.colon}{voice.line(voice.say(because), 200)}", lead="• ")


def _not_checked(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    if not verdict.not_checked:
        return
    sheet.heading(voice.say(say("Could not be checked")))
    for item in verdict.not_checked[:NOT_CHECKED_SHOWN]:
        parts = {"what": voice.sentence(item.what), "because": voice.line(voice.say(item.because))}
        sheet.paragraph(voice.say(say("{what}: {because}", **parts)), lead="• ")
        if item.how:
            sheet.command(voice.command(item.how), indent=4)
    _more(sheet, len(verdict.not_checked) - NOT_CHECKED_SHOWN, voice)


def _unread(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    if not verdict.unread:
        return
    sheet.heading(voice.say(say("Could not be read")))
    for item in verdict.unread[:UNREAD_SHOWN]:
        sheet.paragraph(f"{source_label(item.source, voice)}{voice.colon}{voice.line(item.reason, 240)}", lead="• ")
    _more(sheet, len(verdict.unread) - UNREAD_SHOWN, voice)


def _closing(sheet: TextLayout, verdict: Verdict, voice: Localizer) -> None:
    sheet.lines.append(Styled())
    advice = labels.restart_advice(verdict)
    if advice is not None:
        because = voice.sentence(verdict.restart.because) if verdict.restart.because else ""
        sheet.paragraph(voice.two(voice.sentence(advice), because), indent=0)
    for line in labels.checkpoint_advice(verdict.restart):
        sheet.paragraph(voice.say(line), indent=0)
    sheet.paragraph(voice.say(labels.ranks_seen_text(verdict)), indent=0, style="dim")
