"""Patterns that are compiled when they are first used: a short run uses few, and compiling all takes longer than a log.

For patterns at the head of a module: ``_WORD = late_pattern(r"…")`` in place of ``re.compile``.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_ATTRIBUTES = (
    "search", "match", "fullmatch", "finditer", "findall", "split", "sub", "subn",
    "pattern", "flags", "groups", "groupindex",
)  # fmt: skip


class _LatePattern:
    """Becomes what the compiled pattern is when one of its attributes is first asked for."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _ATTRIBUTES:
            raise AttributeError(name)
        compiled = re.compile(self._text, self._flags)
        self.__dict__.update((each, getattr(compiled, each)) for each in _ATTRIBUTES)
        return self.__dict__[name]


def late_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """``re.compile(text, flags)``, done when the pattern is first used; a wrong one fails only then."""
    return cast("re.Pattern[AnyStr]", _LatePattern(text, flags))
