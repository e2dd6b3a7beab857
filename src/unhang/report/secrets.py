"""Take tokens, keys and passwords out of a text. Always done, asked for or not: secrets are never stored or shown.

Standard library only: a training process does it, too, before it notes an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from unhang.report.secret_lines import lower
from unhang.report.secret_names import NAMING, secret_values
from unhang.report.secret_places import secret_blocks, secrets_in_places
from unhang.report.secret_words import secret_words

REMOVED = "[removed]"
_SHORTEST = 6
_LINE = re.compile(r"[^\n]*\S[^\n]*")


def without_secrets(text: str) -> str:
    """``text`` with every secret that shows by its letters, its name or its place replaced by ``[removed]``."""
    at, parts = 0, []
    for start, end in secret_spans(text):
        parts += (text[at:start], REMOVED)
        at = end
    return "".join((*parts, text[at:])) if parts else text


def words_without_secrets(words: Iterable[str]) -> list[str]:
    """A command line without secrets; the word after an option that names one is one, whatever it looks like."""
    kept, at = list(_words(words)), 0
    found = list(secret_spans(" ".join(kept)))
    for number, word in enumerate(kept):
        here = [(max(start - at, 0), end - at) for start, end in found if start < at + len(word) and end > at]
        at += len(word) + 1
        for start, end in reversed(here):
            kept[number] = kept[number][:start] + REMOVED + kept[number][end:]
    return kept


def _words(words: Iterable[str]) -> Iterator[str]:
    for before, word in pairwise(("", *words)):
        named = NAMING.fullmatch(before) is not None and len(word) > 3 and not word.startswith("-")
        yield REMOVED if named else word


def secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where secrets stand in ``text``, in order, none over two lines and none over another."""
    if len(text) < _SHORTEST:
        return
    lowered, last = lower(text), 0
    found = {*secret_words(text), *secret_values(text, lowered), *secrets_in_places(text, lowered), *_blocks(text)}
    for begin, end in sorted(found):
        start = max(begin, last)
        if start < end and REMOVED[:-1] not in text[max(0, start - 1) : end]:
            yield start, end
            last = end


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Keys of many lines, line by line: how many lines a text has is not changed."""
    for start, end in secret_blocks(text):
        yield from ((start + line.start(), start + line.end()) for line in _LINE.finditer(text[start:end]))
