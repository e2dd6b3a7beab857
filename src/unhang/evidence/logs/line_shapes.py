"""Lines that differ in nothing but their digits: what words alone decide is decided once for all of them.

Most lines of a large log are of a few shapes, and most of what we look for in an ordinary line stands in none of them.
"""

from __future__ import annotations

from typing import NamedTuple

from unhang.evidence.logs.content.endings import may_state_end
from unhang.evidence.logs.lines.prefixes import is_cpp_error
from unhang.evidence.logs.lines.progress import find_step
from unhang.knowledge.failure_language import may_state_failure
from unhang.late_pattern import late_pattern

MAX_SHAPES, MAX_SHAPE_CHARS = 4096, 512
"""So many shapes are remembered, of lines no longer than this."""
_DIGITS = str.maketrans("123456789", "000000000")
_RANK_HINTS = ("ank", "RANK", "GPU", "gpu", "] (", "MEMBER: ", "Process index: ")
_NUMBERS = late_pattern(r"\d+")
_KEY_CHARS = 200
_NO_WORDS = late_pattern(r"^[\s=\-*#+|~^.]*$")
_STACK_LINE = late_pattern(
    r'^\s*(?:frame #\d+:|#\d+ |File "|Exception raised from|terminate called|what\(\):|\^|~)'
    r"|^\S+ FAILED$|^Failures:$|^\s*<NO_OTHER_FAILURES>|^Root Cause \(|^\[\d+\]:$|^Last error:"
)


class LineShape(NamedTuple):
    """What may be found in lines of one shape. False: certainly not."""

    start_or_end: bool
    """It may tell of a start, a size or an end."""
    complaint: bool
    """Words of failure may stand in it."""
    step: bool
    """It tells a step."""
    rank: bool
    """A rank may be named in it."""
    words: bool
    """It is more than a rule of dashes or a part of a stack."""
    stack: bool
    """It is a part of a stack."""
    key: str
    """Its beginning with a mark for every number: lines with the same one say the same."""


class LineShapes:
    """Remembers the shapes of one log."""

    def __init__(self) -> None:
        self._known: dict[str, LineShape] = {}

    def of(self, text: str) -> LineShape:
        """The shape of ``text``."""
        zeros = text.translate(_DIGITS)
        shape = self._known.get(zeros)
        if shape is None:
            shape = _shape_of(zeros)
            if len(self._known) >= MAX_SHAPES:
                self._known.clear()
            if len(zeros) <= MAX_SHAPE_CHARS:
                self._known[zeros] = shape
        return shape


def _may_head_an_error(zeros: str) -> bool:
    return "E0000" in zeros or "F0000" in zeros or "[E " in zeros


def _shape_of(zeros: str) -> LineShape:
    no_words = _NO_WORDS.match(zeros) is not None
    stack = not no_words and _STACK_LINE.match(zeros) is not None
    return LineShape(
        start_or_end=may_state_end(zeros),
        complaint=may_state_failure(zeros, zeros=True) or (_may_head_an_error(zeros) and is_cpp_error(zeros)),
        rank=any(hint in zeros for hint in _RANK_HINTS),
        step=find_step(zeros) is not None,
        words=not no_words and not stack,
        stack=stack,
        key=_NUMBERS.sub("#", zeros[:_KEY_CHARS]),
    )
