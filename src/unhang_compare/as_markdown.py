"""A comparison for a chat or an issue: the sentence, then tables."""

from __future__ import annotations

from unhang.report.layout.markdown_text import escape_markdown, inline_code, inline_text, sentence
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.sentences import say
from unhang_compare import rows_in_words
from unhang_compare.comparison import RunComparison, StepPart


def to_markdown(comparison: RunComparison, *, lang: str = "en", redactor: Redactor | None = None) -> str:
    """``comparison`` as Markdown."""
    voice = Localizer(lang, redactor or Redactor())
    lines = [f"**{voice.say(rows_in_words.headline(comparison))}**  {sentence(comparison.summary, voice)}", ""]
    lines += [f"- {sentence(text, voice)}" for text in comparison.because]
    lines += [
        f"- {voice.say(label)}{inline_text(rows_in_words.side_line(side), voice)}"
        for label, side in ((say("before: "), comparison.before), (say("after: "), comparison.after))
    ]
    for grew, every in ((True, comparison.grew), (False, comparison.shrank)):
        parts = rows_in_words.parts_shown(every)
        if parts:
            lines += ["", f"**{voice.say(rows_in_words.title(comparison, grew=grew))}**", "", *_table(parts, voice)]
    if comparison.changes:
        lines += ["", f"**{voice.say(say('What was changed'))}**", ""]
        for change in comparison.changes[: rows_in_words.CHANGES_SHOWN]:
            because = voice.parenthesized(inline_text(change.because, voice)) if change.because is not None else ""
            values = inline_text(rows_in_words.change_values(change), voice)
            lines.append(f"- {inline_code(voice.line(change.name))}{voice.colon}{values}{because}")
    missing = [
        f"- {sentence(one.what, voice)}{voice.colon}{inline_text(one.because, voice)}"
        for one in comparison.not_compared
    ]
    missing += [
        f"- {inline_code(voice.line(one.source.path))} {escape_markdown(voice.line(one.reason))}"
        for one in comparison.unread[:8]
    ]
    if missing:
        lines += ["", f"**{voice.say(say('Not compared'))}**", "", *missing]
    return "\n".join(lines) + "\n"


def _table(parts: tuple[StepPart, ...], voice: Localizer) -> list[str]:
    rows = ["| | | |", "|--:|---|---|"]
    for part in parts[: rows_in_words.PARTS_SHOWN]:
        notes = " · ".join(inline_text(text, voice) for text in rows_in_words.part_notes(part))
        place = inline_code(voice.line(voice.command(rows_in_words.part_place(part)))).replace("|", "\\|")
        rows.append(f"| {rows_in_words.part_amount(part)} | {place} | {notes} |")
    return rows
