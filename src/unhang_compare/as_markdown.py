"""A comparison for a chat or an issue: the sentence, then tables."""

from __future__ import annotations

from unhang.findings import say
from unhang.report.layout.markdown_text import code, escaped, said, sentence
from unhang.report.localizer import Voice
from unhang.report.redaction.redact import Redactor
from unhang_compare import rows_in_words
from unhang_compare.answer import Comparison, Part


def to_markdown(comparison: Comparison, *, lang: str = "en", redactor: Redactor | None = None) -> str:
    """``comparison`` as Markdown."""
    voice = Voice(lang, redactor or Redactor())
    lines = [f"**{voice.say(rows_in_words.headline(comparison))}**  {sentence(comparison.summary, voice)}", ""]
    lines += [f"- {sentence(text, voice)}" for text in comparison.because]
    lines += [
        f"- {voice.say(label)}{said(rows_in_words.side_line(side), voice)}"
        for label, side in ((say("before: "), comparison.before), (say("after: "), comparison.after))
    ]
    for grew, every in ((True, comparison.grew), (False, comparison.shrank)):
        parts = rows_in_words.parts_shown(every)
        if parts:
            lines += ["", f"**{voice.say(rows_in_words.title(comparison, grew=grew))}**", "", *_table(parts, voice)]
    if comparison.changes:
        lines += ["", f"**{voice.say(say('What was changed'))}**", ""]
        for change in comparison.changes[: rows_in_words.CHANGES_SHOWN]:
            because = f" ({said(change.because, voice)})" if change.because is not None else ""
            values = said(rows_in_words.change_values(change), voice)
            lines.append(f"- {code(voice.line(change.name))}: {values}{because}")
    missing = [f"- {sentence(one.what, voice)}: {said(one.because, voice)}" for one in comparison.not_compared]
    missing += [
        f"- {code(voice.line(one.source.path))} {escaped(voice.line(one.reason))}" for one in comparison.unread[:8]
    ]
    if missing:
        lines += ["", f"**{voice.say(say('Not compared'))}**", "", *missing]
    return "\n".join(lines) + "\n"


def _table(parts: tuple[Part, ...], voice: Voice) -> list[str]:
    rows = ["| | | |", "|--:|---|---|"]
    for part in parts[: rows_in_words.PARTS_SHOWN]:
        notes = " · ".join(said(text, voice) for text in rows_in_words.part_notes(part))
        place = code(voice.line(voice.command(rows_in_words.part_place(part)))).replace("|", "\\|")
        rows.append(f"| {rows_in_words.part_amount(part)} | {place} | {notes} |")
    return rows
