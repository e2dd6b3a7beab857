"""One word for one idea: names, sentences and translations keep to ``docs/glossary.md``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts import catalogue
from unhang.report import language

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (ROOT / "src", ROOT / "packages" / "unhang-lab" / "src")
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
OTHER_IDEAS = {
    "CouldNotLook",  # the third answer of the house beside found and not found
    "look_ahead",  # lines that follow
    "look_up",  # a name in a table
    "may_look_up",
}
"""Names with such a word in another sense."""
FORMAT_TEST = re.compile(r"looks_like(_\w+)?")
CASES_OF_OTHERS = "unhang_lab/cases/"
"""Programs as their users write them."""
EVERYDAY = {"rank", "node", "call", "step", "record", "sample", "stack", "cause", "check", "timeout", "stall"} | {
    "transport", "abort", "store", "signal", "consequence",
}  # fmt: skip
"""Terms that sentences also use in their plain sense, which Chinese says by another word."""


class Term(NamedTuple):
    """A row of the glossary; ``not_this`` as it is written there."""

    name: str
    chinese: str
    sentence: str
    source: str
    not_this: str

    def words(self, pattern: str) -> list[str]:
        return [word for word in re.split(r",\s*", self.not_this) if re.fullmatch(pattern, word)]

    def names_in_chinese(self) -> list[str]:
        return [word for word in re.split("[（）]", self.chinese) if word]


def rows() -> Iterator[Term]:
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "term":
            yield Term(*cells)


TERMS = list(rows())


def names() -> Iterator[tuple[str, str]]:
    """Path and name of every module, class and public function."""
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            short = path.relative_to(source).as_posix()
            if short.startswith(CASES_OF_OTHERS):
                continue
            yield short, path.parent.name if path.stem == "__init__" else path.stem
            for name in _defined(ast.parse(path.read_text(encoding="utf-8")).body):
                yield short, name


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from _defined(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node.name


def sentences() -> set[str]:
    return {*catalogue.source_templates(), *catalogue.known_sentences()}


def translations() -> dict[str, str]:
    return {**language.catalogue("zh"), **language.knowledge_catalogue("zh"), **language.word_catalogue("zh")}


def forms(word: str) -> set[str]:
    return {word, f"{word}s", re.sub("y$", "ies", word)}


def test_every_term_stands_once_in_a_sentence_of_its_own_and_in_chinese() -> None:
    assert len({term.name for term in TERMS}) == len(TERMS) > 50
    assert [
        term.name
        for term in TERMS
        if not re.search(re.escape(term.name), term.sentence, re.IGNORECASE) or not term.chinese
    ] == []


def test_no_word_is_used_for_what_has_another() -> None:
    unwanted = {form for term in TERMS for word in term.words(r"\*?[a-z]+\*?") for form in forms(word.strip("*"))}
    assert {"rule", "looks", "parties"} <= unwanted

    strange = [
        f"{path}: {name}"
        for path, name in names()
        if unwanted & {part.lower() for part in PARTS.findall(name)}
        and name not in OTHER_IDEAS
        and not FORMAT_TEST.fullmatch(name)
    ]
    assert strange == []


def test_a_name_with_another_sense_is_still_there() -> None:
    assert {name for _, name in names()} >= OTHER_IDEAS


def test_no_sentence_for_users_holds_a_word_in_italics() -> None:
    unwanted = [word.strip("*") for term in TERMS for word in term.words(r"\*.+\*")]
    pattern = re.compile("|".join(rf"\b{word.replace('stand', 'stand(?:s|ing)?')}s?\b" for word in unwanted))

    assert [sentence for sentence in sentences() if pattern.search(sentence)] == []


def test_no_translation_holds_a_word_that_is_not_used() -> None:
    unwanted = [word for term in TERMS for word in term.words(r"[\u4e00-\u9fff]+")]
    assert unwanted

    assert [said for said in translations().values() if any(word in said for word in unwanted)] == []


@pytest.mark.parametrize("term", [term for term in TERMS if term.name not in EVERYDAY], ids=lambda term: term.name)
def test_a_term_is_translated_by_its_own_word(term: Term) -> None:
    word = re.compile(rf"\b{re.escape(term.name)}s?\b")
    spoken = {english: said for english, said in translations().items() if word.search(re.sub(r"\{.*?\}", "", english))}
    kept = [*term.names_in_chinese(), term.name]

    assert [english for english, said in spoken.items() if not any(name in said for name in kept)] == []
