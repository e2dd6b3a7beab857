"""Patterns that are compiled when a line needs them: most runs need none, and compiling all takes longer than a log."""

from __future__ import annotations

import re
from functools import cached_property


class LatePattern:
    """A regular expression by its text."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self.text, self.flags = text, flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern itself."""
        return re.compile(self.text, self.flags)
