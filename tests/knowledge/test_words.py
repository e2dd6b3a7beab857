"""Sentences of rows: each in every language, side by side, with the same places."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Any

import pytest
import tomli

from unhang.knowledge.tables import read_rows, read_table, read_text, toml_files
from unhang.knowledge.terms import Term
from unhang.knowledge.words import translations


def sentences_in(value: Any) -> Iterator[dict[str, str]]:
    if isinstance(value, dict) and {"en", "zh"} & set(value):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from sentences_in(inner)


@pytest.mark.parametrize("path", toml_files())
def test_a_sentence_has_every_language_and_its_languages_stand_side_by_side(path: str) -> None:
    found = list(sentences_in(tomli.loads(read_text(path))))
    seen = set(translations("zh"))

    assert all(set(one) == {"en", "zh"} for one in found)
    assert {(one["en"], one["zh"]) for one in found} <= seen, "en on one line, zh on the next"


def test_a_sentence_is_said_in_one_way() -> None:
    """A report looks a sentence up by its English: with two translations, the row that is read last would win."""
    pairs = set(translations("zh"))

    assert len({english for english, _ in pairs}) == len(pairs)


def test_languages_have_the_same_places() -> None:
    for english, other in translations("zh"):
        assert places(english) == places(other), english


def places(sentence: str) -> set[str]:
    """Names of the ``{name}`` places; a brace that is no place stands in sentences about shells."""
    try:
        return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}
    except ValueError:
        return set()


def test_rows_are_read_in_english() -> None:
    text = '[[row]]\nname = "x"\nmeaning.en = "well"\nmeaning.zh = "好"\ndo = [{ en = "look", zh = "看" }]\n'

    assert read_table("rows", text)["row"] == [{"name": "x", "meaning": "well", "do": ["look"]}]
    assert all(isinstance(row.meaning, str) for row in read_rows("terms.toml", "term", Term))
