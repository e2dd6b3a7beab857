"""A comparison for a chat or an issue: the sentence, then tables."""

from __future__ import annotations

from unhang.comparing import shown
from unhang.comparing.answer import Comparison, Part
from unhang.findings import say
from unhang.report.redact import Redactor
from unhang.report.voice import Voice


def to_markdown(comparison: Comparison, *, lang: str = "en", redactor: Redactor | None = None) -> str:
    """``comparison`` as Markdown."""
    voice = Voice(lang, redactor or Redactor())
    lines = [f"**{voice.say(shown.headline(comparison))}**  {voice.sentence(comparison.summary)}", ""]
    lines += [f"- {voice.sentence(text)}" for text in comparison.because]
    lines += [
        f"- {voice.say(label)}{voice.line(voice.say(shown.side_line(side)))}"
        for label, side in ((say("before: "), comparison.before), (say("after: "), comparison.after))
    ]
    for grew, every in ((True, comparison.grew), (False, comparison.shrank)):
        parts = shown.parts_shown(every)
        if parts:
            lines += ["", f"**{voice.say(shown.title(comparison, grew=grew))}**", "", *_table(parts, voice)]
    if comparison.changes:
        lines += ["", f"**{voice.say(say('What was changed'))}**", ""]
        for change in comparison.changes[: shown.CHANGES_SHOWN]:
            because = f" ({voice.say(change.because)})" if change.because is not None else ""
            lines.append(
                f"- `{_cell(voice.line(change.name))}`: {voice.line(voice.say(shown.change_values(change)))}{because}"
            )
    missing = [f"- {voice.sentence(one.what)}: {voice.say(one.because)}" for one in comparison.not_compared]
    missing += [f"- {voice.line(f'{one.source.path} {one.reason}')}" for one in comparison.unread[:8]]
    if missing:
        lines += ["", f"**{voice.say(say('Not compared'))}**", "", *missing]
    return "\n".join(lines) + "\n"


def _table(parts: tuple[Part, ...], voice: Voice) -> list[str]:
    rows = ["| | | |", "|--:|---|---|"]
    for part in parts[: shown.PARTS_SHOWN]:
        notes = " · ".join(voice.say(text) for text in shown.part_notes(part))
        rows.append(
            f"| {shown.part_amount(part)} | `{_cell(voice.line(voice.command(shown.part_place(part))))}` | {notes} |"
        )
    return rows


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")
