"""What a remedy changes, as lines to read and to copy."""

from __future__ import annotations

from unhang.findings import Remedy
from unhang.report.layout.text_layout import TextLayout
from unhang.report.localizer import Localizer

_INDENT = 4


def write_change(layout: TextLayout, remedy: Remedy, localizer: Localizer) -> None:
    """Add its change to ``layout``, then the variables to set and to unset as commands."""
    change = localizer.say(remedy.change).strip()
    if "\n" in change:
        layout.code(change, indent=_INDENT)
    elif change:
        layout.paragraph(change, indent=_INDENT)
    for name, value in remedy.set.items():
        layout.command(f"export {name}={localizer.line(value)}", indent=_INDENT)
    if remedy.unset:
        layout.command("unset " + " ".join(remedy.unset), indent=_INDENT)
