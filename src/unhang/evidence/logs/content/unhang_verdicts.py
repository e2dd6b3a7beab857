"""Verdicts that ``unhang run`` printed between the lines of a job: conclusions, and no evidence of anything."""

from __future__ import annotations

import re

SEPARATOR = "─" * 64
"""Stands above and below such a verdict."""
_RULE = SEPARATOR.encode()
_VERDICT = re.compile(
    rb"^" + _RULE + rb"\r?\n(?:(?!" + _RULE + rb").*\n){1,400}?.*\bunhang diagnose .*\n" + _RULE + rb"\r?$",
    re.MULTILINE,
)
_LINE = re.compile(rb"^unhang: [^\n]*$", re.MULTILINE)


def without_own_verdicts(data: bytes) -> bytes:
    """``data`` with empty lines in place of them, so that every other line keeps its number."""
    if _RULE not in data:
        return data
    return _LINE.sub(b"", _VERDICT.sub(lambda found: b"\n" * found[0].count(b"\n"), data))
