"""A comparison for the terminal: the answer, what grew and where, what was changed, what could not be compared."""

from __future__ import annotations

from rich.text import Text as Styled

from unhang.findings import Phase
from unhang.report.layout.text_layout import TextLayout
from unhang.report.localizer import Localizer
from unhang.sentences import say
from unhang_compare import rows_in_words
from unhang_compare.comparison import RunComparison, StepPart

_STYLES = {"grew": "bold red", "shrank": "bold green", "same": "bold green", "not-told": "bold yellow"}
UNREAD_SHOWN = 8


def comparison_sheet(comparison: RunComparison, voice: Localizer, width: int) -> TextLayout:
    """All of it on one sheet."""
    sheet = TextLayout(width)
    head = Styled(voice.say(rows_in_words.headline(comparison)), _STYLES[comparison.answer])
    sheet.paragraph(head.append("  ").append(voice.sentence(comparison.summary), "bold"), indent=0)
    for text in comparison.because:
        sheet.paragraph(voice.sentence(text), lead="• ")
    sheet.lines.append(Styled())
    for label, side in ((say("before: "), comparison.before), (say("after: "), comparison.after)):
        told = voice.line(voice.say(rows_in_words.side_line(side)))
        sheet.paragraph(told, indent=0, lead=voice.say(label))
    _parts(sheet, comparison, voice, grew=True)
    _parts(sheet, comparison, voice, grew=False)
    _changes(sheet, comparison, voice)
    _missing(sheet, comparison, voice)
    return sheet


def _parts(sheet: TextLayout, comparison: RunComparison, voice: Localizer, *, grew: bool) -> None:
    parts = rows_in_words.parts_shown(comparison.grew if grew else comparison.shrank)
    if not parts:
        return
    sheet.heading(voice.say(rows_in_words.title(comparison, grew=grew)))
    for part in parts[: rows_in_words.PARTS_SHOWN]:
        lead = f"{rows_in_words.part_amount(part):>9}  "
        sheet.paragraph(
            Styled(voice.line(voice.command(rows_in_words.part_place(part))), "bold" if grew else ""), lead=lead
        )
        sheet.paragraph(_notes(part, voice), indent=2 + len(lead), style="dim")
    if len(parts) > rows_in_words.PARTS_SHOWN:
        sheet.paragraph(
            voice.say(say("and {count} smaller ones", count=len(parts) - rows_in_words.PARTS_SHOWN)), style="dim"
        )


def _notes(part: StepPart, voice: Localizer) -> str:
    words = [voice.say(text) for text in rows_in_words.part_notes(part)]
    phase = [] if part.phase is Phase.OTHER else [voice.word(part.phase.value)]
    return " · ".join([words[0], *phase, *words[1:]])


def _changes(sheet: TextLayout, comparison: RunComparison, voice: Localizer) -> None:
    if not comparison.changes:
        return
    sheet.heading(voice.say(say("What was changed")), voice.say(say("most relevant to stalls first")))
    for change in comparison.changes[: rows_in_words.CHANGES_SHOWN]:
        style = "bold red" if change.known_bad else ""
        text = Styled(voice.line(change.name), style).append(
            f"  {voice.line(voice.say(rows_in_words.change_values(change)))}"
        )
        sheet.paragraph(text, lead="! " if change.known_bad else "• ")
        if change.because is not None:
            sheet.paragraph(voice.sentence(change.because), indent=4, style="dim")
    more = len(comparison.changes) - rows_in_words.CHANGES_SHOWN
    if more > 0:
        sheet.paragraph(voice.say(say("and {count} more; --format json lists all", count=more)), style="dim")


def _missing(sheet: TextLayout, comparison: RunComparison, voice: Localizer) -> None:
    if not comparison.not_compared and not comparison.unread:
        return
    sheet.heading(voice.say(say("Not compared")))
    for missing in comparison.not_compared:
        sheet.paragraph(f"{voice.sentence(missing.what)}{voice.colon}{voice.say(missing.because)}", lead="• ")
        if missing.how:
            sheet.command(missing.how, indent=4)
    for unread in comparison.unread[:UNREAD_SHOWN]:
        sheet.paragraph(voice.line(f"{unread.source.path} {unread.reason}"), lead="• ")
