"""The verdict as text: one screen, first what it is and what to do, then why, then everything else in one line each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import IO

from rich.cells import cell_len
from rich.text import Text as Styled

from unhang.facts.model import Facts
from unhang.findings import Consequence, Finding, NotChecked, Remedy, Source, Status, Verdict, Where
from unhang.report import labels
from unhang.report.first_lines import cause_of, first_lines, spoken_headline, world_of
from unhang.report.layout.claims import first_rows
from unhang.report.layout.sections import build_or_default
from unhang.report.layout.source_lines import source_lines
from unhang.report.layout.text_layout import TextLayout, width_of
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.report.redaction.shown_paths import common_folder, without_library_roots
from unhang.report.shown_places import shown_places
from unhang.sentences import say

EVIDENCE_SHOWN, OTHERS_SHOWN, NOT_CHECKED_SHOWN, UNREAD_SHOWN = 6, 4, 3, 4
UNDER = 6
"""Columns in front of what belongs to the status or to ``Next``."""
_STYLES = {
    Status.HANG: "bold red",
    Status.CRASH: "bold red",
    Status.SLOW: "bold yellow",
    Status.MISCONFIGURED: "bold yellow",
    Status.HEALTHY: "bold green",
    Status.UNKNOWN: "bold magenta",
}


def to_text(
    verdict: Verdict, facts: Facts | None = None, *, lang: str = "en", width: int = 80, redactor: Redactor | None = None
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
    localizer = Localizer(lang, redactor or Redactor())
    localizer.redactor.learn_from(verdict, facts)
    return localizer


def _layout(verdict: Verdict, facts: Facts | None, localizer: Localizer, width: int) -> TextLayout:
    layout = TextLayout(width)
    sections: list[tuple[str, Callable[[], None]]] = [("headline", lambda: _headline(layout, verdict, localizer))]
    first, _ = labels.first_and_others(verdict)
    if first is not None:
        sections += [
            ("action", lambda: _action(layout, first, localizer)),
            ("why", lambda: _why(layout, first, localizer)),
            ("place", lambda: _place(layout, first, facts, localizer)),
            ("evidence", lambda: _evidence(layout, first, localizer)),
            ("consequences", lambda: _consequences(layout, first, localizer)),
        ]
    sections += [
        ("shown", lambda: _proof(layout, verdict, localizer)),
        ("not checked", lambda: _not_checked(layout, verdict, localizer)),
        ("unread", lambda: _unread(layout, verdict, localizer)),
        ("others", lambda: _others(layout, verdict, localizer)),
        ("ruled out", lambda: _ruled_out(layout, verdict, localizer)),
        ("background", lambda: _background(layout, verdict, localizer)),
        ("closing", lambda: _closing(layout, verdict, localizer)),
    ]
    for name, write in sections:
        gaps: list[NotChecked] = []
        build_or_default(name, write, None, gaps)
        for gap in gaps:
            write_gap(layout, gap, localizer)
    return layout


def write_gap(layout: TextLayout, gap: NotChecked, localizer: Localizer, lead: str = "") -> None:
    """Say what could not be looked at, why, and the command that would."""
    parts = {"what": localizer.sentence(gap.what), "because": localizer.line(localizer.say(gap.because))}
    layout.paragraph(localizer.say(say("{what}: {because}", **parts)), lead=lead)
    if gap.how:
        layout.command(localizer.command(gap.how), indent=4)


def _headline(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    word, head, rest = spoken_headline(verdict, localizer, layout.width)
    layout.paragraph(Styled(word, _STYLES[verdict.status]).append("  ").append(head, "bold"), indent=0)
    if rest:
        layout.paragraph(first_rows(rest, layout.width - UNDER), indent=UNDER)
    layout.parts(first_lines(verdict, localizer), indent=UNDER, style="dim")


def _action(layout: TextLayout, finding: Finding, localizer: Localizer) -> None:
    for number, remedy in enumerate(finding.remedies):
        if number == 0:
            _remedy(layout, remedy, localizer)
        else:
            layout.paragraph(localizer.sentence(remedy.title), indent=UNDER, lead=localizer.say(say("Or: ")))


def _remedy(layout: TextLayout, remedy: Remedy, localizer: Localizer) -> None:
    word = localizer.say(labels.NEXT)
    lead = word + " " * (UNDER - cell_len(word))
    layout.paragraph(Styled(localizer.sentence(remedy.title), "bold"), indent=0, lead=lead, lead_style="bold cyan")
    write_change(layout, remedy, localizer, indent=UNDER)
    for label, text in ((say("Costs: "), remedy.cost), (say("Check: "), remedy.verify)):
        if str(text).strip():
            layout.paragraph(localizer.say(text), indent=UNDER, lead=localizer.say(label))


def write_change(layout: TextLayout, remedy: Remedy, localizer: Localizer, indent: int = 4) -> None:
    """Add its change to ``layout``, then the variables to set and to unset as commands."""
    change = localizer.say(remedy.change).strip()
    if "\n" in change:
        layout.code(change, indent=indent)
    elif change:
        layout.paragraph(change, indent=indent)
    for name, value in remedy.set.items():
        layout.command(f"export {name}={localizer.line(value)}", indent=indent)
    if remedy.unset:
        layout.command("unset " + " ".join(remedy.unset), indent=indent)


def _why(layout: TextLayout, finding: Finding, localizer: Localizer) -> None:
    if not finding.because:
        return
    layout.heading(localizer.say(say("Why")))
    for text in finding.because[: labels.REASONS_SHOWN]:
        layout.paragraph(localizer.sentence(text), lead="• ")
    _more(layout, len(finding.because) - labels.REASONS_SHOWN, localizer)


def _place(layout: TextLayout, finding: Finding, facts: Facts | None, localizer: Localizer) -> None:
    for who, where in shown_places(finding, facts):
        _call_site(layout, localizer.say(who), where, facts, localizer, around=2 if where == finding.where else 1)


def _call_site(
    layout: TextLayout, who: str, where: Where, facts: Facts | None, localizer: Localizer, around: int
) -> None:
    layout.heading(who)
    place = Styled(localizer.place(where), "bold")
    if where.function:
        place.append(f"  in {localizer.line(where.function)}", "dim")
    layout.paragraph(place)
    for line in source_lines(facts, where, around):
        mark = "▸" if line.hit else " "
        text = f"{mark} {line.number:>5} │ {localizer.clean(line.text)}".rstrip()
        layout.code(text, indent=2, style="bold" if line.hit else "dim")


def _evidence(layout: TextLayout, finding: Finding, localizer: Localizer) -> None:
    if not finding.evidence:
        return
    folder = evidence_folder([finding], localizer)
    layout.heading(localizer.say(say("Evidence")), localizer.say(say("in {folder}", folder=folder)) if folder else "")
    rows = 2 if len(finding.evidence) > 1 else 4
    room = layout.width * rows - 12  # some is lost to wrapping
    for item in finding.evidence[:EVIDENCE_SHOWN]:
        lead = source_label(item.source, localizer, folder)
        said = localizer.line(without_library_roots(item.text), max(40, room - len(lead)))
        layout.paragraph(Styled(lead, "cyan").append("  ").append(said))
    _more(layout, len(finding.evidence) - EVIDENCE_SHOWN, localizer)


def evidence_folder(findings: Sequence[Finding], localizer: Localizer) -> str:
    """The folder the findings' evidence shares; empty when sharing, for what is left of a path could name something."""
    if localizer.redactor.share:
        return ""
    return common_folder(item.source.path for finding in findings for item in finding.evidence)


def source_label(source: Source, localizer: Localizer, folder: str = "") -> str:
    """``rank3.log:120``, ``dump_7 (byte 8192)`` or the bare path; ``folder`` is said elsewhere and left out."""
    path = localizer.line(source.path.removeprefix(folder))
    if source.line is not None:
        return f"{path}:{source.line}"
    if source.byte is not None and source.byte >= 0:
        return localizer.say(say("{path} (byte {byte})", path=path, byte=source.byte))
    return path


def _more(layout: TextLayout, count: int, localizer: Localizer) -> None:
    if count > 0:
        layout.paragraph(localizer.say(say("and {count} more: --format json", count=count)), style="dim")


def _consequences(layout: TextLayout, finding: Finding, localizer: Localizer) -> None:
    if not finding.consequences:
        return
    parts = [consequence_line(item, localizer) for item in finding.consequences]
    layout.heading(localizer.say(say("Consequences")))
    layout.paragraph(localizer.say(say("; ")).join(parts))


def consequence_line(item: Consequence, localizer: Localizer) -> str:
    """``63 × rank-crashed (ranks 0-62)``, or the detector's own words."""
    if item.summary is not None:
        return localizer.line(localizer.say(item.summary))
    ranks = localizer.parenthesized(localizer.say(labels.ranks_label(item.ranks))) if item.ranks else ""
    return f"{item.count} × {item.cause.value}{ranks}"


def _others(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    _, others = labels.first_and_others(verdict)
    if not others:
        return
    layout.heading(localizer.say(say("Also found")))
    for finding in others[:OTHERS_SHOWN]:
        layout.paragraph(other_line(finding, localizer), lead="• ")
    _more(layout, len(others) - OTHERS_SHOWN, localizer)


def other_line(finding: Finding, localizer: Localizer) -> str:
    """A finding that is not the verdict, in one line."""
    place = f" · {localizer.place(finding.where)}" if finding.where is not None else ""
    summary = localizer.line(localizer.say(finding.summary), 240)
    cause, *certainty = cause_of(finding, localizer) or [""]
    certainty += world_of(finding, localizer)
    lead = "".join([cause, *map(localizer.parenthesized, certainty), localizer.colon]) if cause else ""
    return f"{lead}{summary}{place}"


def _proof(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    if len(verdict.checked) < 2:  # else the headline says it
        return
    layout.heading(localizer.say(say("Signs that the job is healthy")))
    for item in verdict.checked:
        layout.paragraph(localizer.sentence(item.what), lead="• ")


def _background(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    if not verdict.differential and not verdict.incidents:
        return
    layout.heading(localizer.say(labels.BACKGROUND))
    for candidate in verdict.differential:
        layout.paragraph(localizer.say(labels.background_text(candidate)), lead="• ", style="dim")
    for incident in verdict.incidents:
        known = say("{cause} in a similar public report: {link}", cause=incident.cause.value, link=incident.link)
        layout.paragraph(localizer.say(known), lead="• ", style="dim")


def _ruled_out(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    if not verdict.ruled_out:
        return
    layout.heading(localizer.say(say("Ruled out")))
    for because, items in groupby(verdict.ruled_out, key=lambda item: item.because):
        causes = ", ".join(item.cause.value for item in items)
        layout.paragraph(f"{causes}{localizer.colon}{localizer.line(localizer.say(because), 200)}", lead="• ")


def _not_checked(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    if not verdict.not_checked:
        return
    layout.heading(localizer.say(say("Could not be checked")))
    for item in verdict.not_checked[:NOT_CHECKED_SHOWN]:
        write_gap(layout, item, localizer, "• ")
    _more(layout, len(verdict.not_checked) - NOT_CHECKED_SHOWN, localizer)


def _unread(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    if not verdict.unread:
        return
    layout.heading(localizer.say(say("Could not be read")))
    for item in verdict.unread[:UNREAD_SHOWN]:
        why = f"{localizer.colon}{localizer.line(localizer.reason(item.reason), 240)}"
        layout.paragraph(source_label(item.source, localizer) + why, lead="• ")
    _more(layout, len(verdict.unread) - UNREAD_SHOWN, localizer)


def _closing(layout: TextLayout, verdict: Verdict, localizer: Localizer) -> None:
    advice = labels.restart_advice(verdict)
    because = localizer.sentence(verdict.restart.because) if verdict.restart.because else ""
    said = [localizer.two(localizer.sentence(advice), because)] if advice is not None else []
    said += map(localizer.say, labels.checkpoint_advice(verdict.restart))
    seen = localizer.say(labels.ranks_seen_text(verdict))
    layout.lines += [Styled()] if said or seen else []
    for text, style in (*((text, "") for text in said), (seen, "dim")):
        if text:
            layout.paragraph(text, indent=0, style=style)
