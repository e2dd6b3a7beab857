"""What a remedy changes, as lines to read and to copy."""

from __future__ import annotations

from unhang.findings import Remedy
from unhang.report.layout.text_layout import TextLayout
from unhang.report.localizer import Localizer

_INDENT = 4


def write_change(sheet: TextLayout, remedy: Remedy, voice: Localizer) -> None:
    """Add its change to ``sheet``, then the variables to set and to unset as commands."""
    change = voice.say(remedy.change).strip()
    if "\n" in change:
        sheet.code(change, indent=_INDENT)
    elif change:
        sheet.paragraph(change, indent=_INDENT)
    for name, value in remedy.set.items():
        sheet.command(f"export {name}={voice.line(value)}", indent=_INDENT)
    if remedy.unset:
        sheet.command("unset " + " ".join(remedy.unset), indent=_INDENT)
