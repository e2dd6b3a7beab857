"""Sentences of rows in every language, side by side: ``summary.en = "…"`` and ``summary.zh = "…"`` on two lines, or
``{ en = "…", zh = "…" }`` inside a list. A sentence that is the same in every language is written once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from unhang.knowledge.tables import read_text, read_typed, toml_files
from unhang.sentences import Text


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One sentence with ``{name}`` places, in English and Simplified Chinese."""

    en: str
    zh: str


Phrase = Words | str
"""A sentence; one that is the same in every language, as a command is, is written once."""


def text_of(phrase: Phrase, values: Mapping[str, Any]) -> Text:
    """``phrase`` with its places filled."""
    return Text(phrase if isinstance(phrase, str) else phrase.en, values)


class Sentences:
    """The sentences of one file of rows, each said by its name: ``tell("stopped", ranks=ranks)``. The file is read when
    the first of them is said."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, name: str, /, **values: Any) -> Text:
        """The sentence ``name`` with its places filled. Raises ``KeyError`` for one that is not in the file."""
        return text_of(_sentences(self.path)[name], values)


@cache
def _sentences(path: str) -> Mapping[str, Phrase]:
    return read_typed(path, dict[str, Phrase])


def translations(lang: str) -> Iterator[tuple[str, str]]:
    """(English, ``lang``) of every sentence in the rows, taken from the text: reading all rows as TOML takes longer."""
    quoted = r'("[^"\\]*(?:\\.[^"\\]*)*")'
    pair = re.compile(rf"en = {quoted}(?:, |\n[\w.-]*){re.escape(lang)} = {quoted}")
    for path in toml_files():
        for english, other in pair.findall(read_text(path)):
            yield json.loads(english), json.loads(other)
