"""Sentences of rows: each in every language, side by side, with the same places."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tomli

from unhang.knowledge import words
from unhang.knowledge.tables import read_rows, read_table, read_text, read_typed, toml_files
from unhang.knowledge.terms import Term
from unhang.knowledge.words import Phrase, translations

SOURCES = Path(words.__file__).parents[1]


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


class Said(NamedTuple):
    """A call of :class:`Sentences`. ``names``: which rows it may say; none where the name is a value of facts."""

    place: str
    names: tuple[str, ...]
    values: frozenset[str]


def calls_by_file() -> Mapping[str, list[Said]]:
    """Of each file that a module says sentences of, the calls that say them."""
    found: dict[str, list[Said]] = {}
    for path in SOURCES.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        files = {
            ast.unparse(node.targets[0]): ast.literal_eval(node.value.args[0])
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and called(node.value) == "Sentences"
        }
        for node in ast.walk(tree) if files else ():
            if isinstance(node, ast.Call) and called(node) in files:
                values = frozenset(keyword.arg or "**" for keyword in node.keywords)
                said = Said(f"{path.name}:{node.lineno}", tuple(names_in(node.args[0])), values)
                found.setdefault(files[called(node)], []).append(said)
    return found


def called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def names_in(node: ast.expr) -> Iterator[str]:
    """The names that an expression may be: one, or one of two."""
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.IfExp):
        yield from (*names_in(node.body), *names_in(node.orelse))


@pytest.mark.parametrize(("path", "calls"), calls_by_file().items(), ids=list(calls_by_file()))
def test_a_sentence_that_is_said_has_a_row_and_a_row_is_said(path: str, calls: list[Said]) -> None:
    rows = read_typed(path, dict[str, Phrase])
    named = {name for said in calls for name in said.names}
    by_facts = any(not said.names for said in calls)

    assert named <= set(rows)
    assert [name for name in set(rows) - named if not by_facts or not is_written(name)] == []


def is_written(name: str) -> bool:
    """Whether some module has this text."""
    return any(f'"{name}"' in path.read_text("utf-8") for path in SOURCES.rglob("*.py"))


@pytest.mark.parametrize(("path", "calls"), calls_by_file().items(), ids=list(calls_by_file()))
def test_a_sentence_gets_a_value_for_each_place_and_no_other(path: str, calls: list[Said]) -> None:
    rows = read_typed(path, dict[str, Phrase])
    for said in calls:
        needed = [places(words.text_of(rows[name], {}).template) for name in said.names]

        assert "**" in said.values or all(names <= said.values for names in needed), said.place
        assert said.values - {"**"} <= set().union(*needed), said.place


def test_every_file_of_causes_is_said_from() -> None:
    assert {path for path in toml_files() if path.startswith("causes/")} <= set(calls_by_file())


def test_a_sentence_is_said_by_its_name() -> None:
    tell = words.Sentences("causes/slow-rank.toml")

    assert str(tell("pace", rank=3)) == "the job moves at the pace of rank 3; the others wait for it"
    with pytest.raises(KeyError):
        tell("not-there")
