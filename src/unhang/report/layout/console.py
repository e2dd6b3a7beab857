"""rich's console, whose texts are made printable before they are coloured."""

from __future__ import annotations

from collections.abc import Iterable

from rich import console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from unhang.report.printable import printable


class Console(console.Console):
    """Use it wherever rich prints: what it writes goes to the terminal as it is."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What rich makes of it; control codes only where they are rich's own."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)
