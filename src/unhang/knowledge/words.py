"""Sentences of rows in every language, side by side: ``summary.en = "…"``, ``summary.zh = "…"``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from unhang.knowledge.tables import list_toml_files, read_table
from unhang.sentences import Text

_FILES, _FOLDERS = ("remedies.toml",), ("reasoning", "risks")
"""Files and folders below ``knowledge/`` whose rows hold words."""


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One sentence with ``{name}`` places, in English and Simplified Chinese."""

    en: str
    zh: str


Phrase = Words | str
"""A sentence; one that is the same in every language, as a command is, is written once."""


def text_of(phrase: Phrase, values: Mapping[str, Any]) -> Text:
    """``phrase`` with its places filled."""
    return Text(phrase if isinstance(phrase, str) else phrase.en, values)


def translations(lang: str) -> Iterator[tuple[str, str]]:
    """(English, ``lang``) of every sentence in the rows."""
    in_folders = (f"{folder}/{name}" for folder in _FOLDERS for name in list_toml_files(folder))
    for path in (*_FILES, *in_folders):
        yield from _pairs(read_table(path), lang)


def _pairs(value: Any, lang: str) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        return
    if "en" in value and lang in value:
        yield value["en"], value[lang]
        return
    for inner in value.values():
        yield from _pairs(inner, lang)
