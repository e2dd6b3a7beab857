"""Take tokens, keys and passwords out of a text. Always done, asked for or not: secrets are never stored or shown.

Standard library only: a training process does it, too, before it notes an exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from unhang.secrets import secrets_by_name, secrets_by_place
from unhang.secrets import secrets_by_shape as words
from unhang.secrets.line_filter import HintedLines

REMOVED = "[removed]"
TEMPLATE = "template"
"""Under this name a sentence of ours is carried (``report/text_serialization.py``); its values stand beside it."""
_MASKED = re.compile(r"\[removed\]\*+")
_SHORTEST = 6
_LINE = re.compile(r"[^\n]*\S[^\n]*")


def without_secrets(text: str) -> str:
    """``text`` with every secret that shows by its letters, its name or its place replaced by ``[removed]``."""
    if f"{REMOVED}*" in text:
        text = _MASKED.sub(REMOVED, text)  # of a log whose lines keep their length
    at = 0
    parts: list[str] = []
    for start, end in secret_spans(text):
        parts += (text[at:start], REMOVED)
        at = end
    return "".join((*parts, text[at:])) if parts else text


def tree_without_secrets(value: Any) -> Any:
    """The same tree of dicts, lists and scalars with every text cleaned; what stands under a name is its value."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {name: item if name == TEMPLATE else _named(name, item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [tree_without_secrets(item) for item in value]
    return value


def _named(name: Any, value: Any) -> Any:
    return value_without_secrets(str(name), value) if isinstance(value, str) else tree_without_secrets(value)


def value_without_secrets(name: str, value: str) -> str:
    """What a variable or key ``name`` is set to, without secrets, also where only its name tells that it is one."""
    head = f"{name}="
    return without_secrets(head + value)[len(head) :]


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
        named = secrets_by_name.NAMING.fullmatch(before) is not None and len(word) > 3 and not word.startswith("-")
        yield REMOVED if named else word


def secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where secrets stand in ``text``, in order, none over two lines and none over another."""
    if len(text) < _SHORTEST:
        return
    lines, last = HintedLines(text, _hints()), 0
    found = {*_blocks(text), *words.secret_words(text, lines), *secrets_by_name.secret_values(lines)}
    found.update(secrets_by_place.secrets_in_places(lines))
    for begin, end in sorted(found):
        start = max(begin, last)
        if start < end and REMOVED[:-1] not in text[max(0, start - 1) : end]:
            yield start, end
            last = end


@cache
def _hints() -> tuple[str, ...]:
    return tuple(dict.fromkeys((*secrets_by_name.HINTS, *secrets_by_place.hints(), *words.hints())))


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Keys of many lines, line by line: how many lines a text has is not changed."""
    for start, end in secrets_by_place.secret_blocks(text):
        yield from ((start + line.start(), start + line.end()) for line in _LINE.finditer(text[start:end]))
