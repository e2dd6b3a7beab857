"""The advice that an article gives: variables, releases, and what ``passed_on.toml`` and the terms know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from unhang.knowledge.job.environment_variables import variable, varies_by_start
from unhang.knowledge.tables import read_rows
from unhang.report.explain.article_sentences import OF_NO_ADVICE, Sentence, advises, finder, says, sentences
from unhang.report.explain.code_pages import LABELS_OF_WORTH
from unhang.report.explain.page import PageLine
from unhang.report.explain.term_search import asking_words, terms_within
from unhang.report.explain.version_pages import version_page
from unhang.sentences import say

Worth = Literal["right", "already", "depends", "no-effect", "costs", "harmful", "unknown"]
"""``already``: it is so here. ``unknown``: it reads as advice, and nothing is known of it."""
FEWEST, QUOTED_SHARE = 2, 0.6
"""Pieces of advice that make a text an article, and the share of its sentences that programs may have written."""
_REACH, _BEFORE, _SHORTEST, _LONGEST = 70, 14, 9, 220
"""Letters: between the words of one piece of advice, from a ``not`` to them, of a sentence that may advise."""
_GIVEN = r"""["'`\])]*\s*(?:=|,\s*["']|\s+value:)\s*["'`]*([^\s"'`，,。;；)（(|\u3400-\u9fff]+)"""
_SPOKEN = r"""\s*(?:to|\||设为|设置为|设置成|设成|调整为|改为|为)\s*["'`]*(\d[\w.]*|[A-Z]{2,}\b)"""
_OF_A_RELEASE = say("It helps only where a known defect of the release in use fits what happens here.")
_INTRODUCES = (":", "：")
"""Ends of sentences that say what is listed below them."""
_PARTS = re.compile(r"[,，;；]")
_CLAUSE = re.compile(r"[,，、:：;()（）]")
_OF_A_LINE = r"""["']?\s*:\s+["']?([\w.,^-]+)["']?,?\s*(?:#.*)?$"""
"""Of a settings file: ``NAME: value`` and nothing else."""
_SETTING = re.compile(rf"(?<![A-Za-z0-9_])([A-Z][A-Z0-9]*_[A-Z0-9_]+)(?:{_GIVEN}|{_SPOKEN}|{_OF_A_LINE})?")
_FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]+")
_CALLED = re.compile(r"[\w.]*\s*[=(]")


@dataclass(frozen=True, slots=True)
class PassedOn:
    """One piece of advice that is passed on, and what it is worth where nothing is known of the job.

    ``says``: words near each other in a sentence, ``a|b & c``; ``variables``: those, or packages, it is about as well.
    ``found``: rows of ``risks/`` by which `unhang check` says that a job needs it; ``fine``: that it is so already.
    """

    id: str
    judgement: Worth
    because: str
    says: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    settle: str = ""
    found: tuple[str, ...] = ()
    fine: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice, where it stands, and what it is worth. ``key``: the row's id, the variable, package and
    release, or the title of a page; ``settle``: the command that says what it depends on."""

    sentence: Sentence
    key: str
    worth: Worth
    because: tuple[PageLine, ...] = ()
    settle: str = ""
    value: str | None = None
    """What a variable is set to."""
    row: PassedOn | None = None
    against: bool = False
    """The article advises against it."""


def passed_on() -> tuple[PassedOn, ...]:
    """All rows of ``passed_on.toml``."""
    return read_rows("passed_on.toml", "passed_on", PassedOn)


def advice_in(text: str, *, few_known: bool = False) -> tuple[tuple[Sentence, ...], tuple[Advice, ...]]:
    """The author's own sentences, and each piece of advice once, in order; none for a log or a question.

    ``few_known``: advice of which nothing is known makes an article as well.
    """
    told = tuple(sentences(text))
    own = tuple(one for one in told if not one.quoted)
    found: dict[str, Advice] = {}
    for piece in (piece for one in own for piece in _pieces(one) if not _is_said(piece, found)):
        earlier = found.setdefault(piece.key, piece)
        if earlier.row is not None and earlier.key == earlier.row.id and earlier.sentence.text != piece.sentence.text:
            found.setdefault(f"{piece.key} {piece.sentence.text}", piece)
        if earlier.value is None and piece.value is not None:  # named first, set later
            found[piece.key] = replace(earlier, value=piece.value, sentence=piece.sentence)
    known = {piece.key for piece in found.values() if few_known or piece.worth != "unknown"}
    article = len(known) >= FEWEST and len(told) - len(own) <= QUOTED_SHARE * len(told)
    return own, tuple(found.values()) if article else ()


def _is_said(piece: Advice, found: Iterable[str]) -> bool:
    """A row in words whose variable or package has been named: ``export NCCL_P2P_DISABLE=1``, "this disables P2P"."""
    named = {key.split()[0] for key in found}
    return piece.row is not None and piece.key == piece.row.id and not named.isdisjoint(piece.row.variables)


def _pieces(one: Sentence) -> Sequence[Advice]:
    return [*_variables(one), *_releases(one), *_rows(one)] or list(_of_terms(one))


def _variables(one: Sentence) -> Iterator[Advice]:
    for match in _SETTING.finditer(one.text):
        name, value = match[1], match[2] or match[3] or match[4]
        row = variable(name)
        if varies_by_start(name) or (row is None and not name.startswith(("NCCL_", "TORCH_NCCL_"))):
            continue
        if value is None and (one.code or not advises(one)):
            continue
        known = next((item for item in passed_on() if name in item.variables), None)
        effect = (row.effect,) if row is not None else ()
        piece = Advice(one, name, "depends", effect, f"unhang explain {name}", value)
        yield _judged(piece, known, match.start())


def _releases(one: Sentence) -> Iterator[Advice]:
    for match in _release().finditer(one.text) if advises(one) else ():
        asked = f"{match[1]} {match[3] or match[2]}"
        page = version_page(asked)
        known = tuple(text for label, text in page.details if str(label) != "Known")[:2] if page is not None else ()
        key = page.title if page is not None else asked.lower()
        settle = f"unhang explain '{key}'" if known else "unhang check --only versions -- COMMAND"
        piece = Advice(one, key, "depends", (_OF_A_RELEASE, *known), settle)
        yield _judged(piece, None, match.start())


@cache
def _release() -> re.Pattern[str]:
    names = sorted(asking_words()["packages"], key=len, reverse=True)
    between, number = (
        r"(?:库|的|版本|version|release|to|at|到|至|为|[升降]级|更新|回退|[\s=>~^:v])*",
        r"(\d+(?:\.\d+)+)",
    )
    named = rf"(?<![\w-])({'|'.join(map(re.escape, names))}|[a-z][\w-]+(?===)){between}{number}(?![\d.]*\+)"
    return re.compile(rf"{named}(?:\s*(?:to|到|至|->|→)\s*v?{number})?", re.IGNORECASE)


def _rows(one: Sentence) -> Iterator[Advice]:
    """One row a clause: of several that fit the one with the most words in it."""
    given = one.part not in OF_NO_ADVICE and (one.code or (one.part and one.listed))
    if one.text[-1] in _INTRODUCES or not (given or advises(one)):
        return
    spoken, clauses = one.text.casefold(), dict[int, tuple[int, bool, int, PassedOn]]()
    for row in passed_on():
        place = next((place for words in row.says if (place := _place(words, spoken, code=one.code))), None)
        if place is not None:
            fits = (place[1], row.judgement != "right", place[0], row)
            clause = len(_PARTS.findall(spoken[: place[0]]))
            clauses[clause] = max(fits, clauses.get(clause, fits), key=lambda one: one[:2])
    for _, _, at, row in clauses.values():
        yield _judged(Advice(one, row.id, "depends"), row, at)


def _judged(piece: Advice, row: PassedOn | None, at: int) -> Advice:
    """``piece`` with what its row says; one that the article advises against is worth the opposite."""
    if row is not None:
        piece = replace(piece, worth=row.judgement, because=(row.because,), settle=row.settle, row=row)
    if piece.sentence.part != "failed" and not says(
        "against", _CLAUSE.split(piece.sentence.text[max(0, at - _BEFORE) : at])[-1]
    ):
        return piece
    bad = piece.worth in ("harmful", "costs", "no-effect")
    return replace(piece, worth="right" if bad else "depends", against=True)


def _place(words: str, spoken: str, *, code: bool) -> tuple[int, int] | None:
    """Where all of ``words`` lie near each other, and how many letters they are; None where they do not. In ``code``
    the first is a flag, or a name that is set or called."""
    first, *others = _finders(words)
    for match in first.finditer(spoken):
        if code and not ("--" in spoken[max(0, match.start() - 2) : match.end()] or _CALLED.match(spoken, match.end())):
            continue
        near = spoken[max(0, match.start() - _REACH) : match.end() + _REACH]
        held = [found for other in others if (found := other.search(near)) is not None]
        if len(held) == len(others):
            return match.start(), sum(len(found[0]) for found in (match, *held))
    return None


@cache
def _finders(words: str) -> tuple[re.Pattern[str], ...]:
    return tuple(finder(group.split("|")) for group in words.split(" & "))


def _of_terms(one: Sentence) -> Iterator[Advice]:
    """A sentence that advises and that no row knows: what is known of the term in it, or that nothing is."""
    flagged = _FLAG.search(one.text) is not None and advises(one)
    spoken = not one.code and one.part != "failed" and one.text[-1] not in _INTRODUCES and advises(one)
    if not (flagged or spoken) or not _SHORTEST <= len(one.text) <= _LONGEST:
        return
    told = terms_within(one.text) if one.part == "advice" and not one.code else {}
    judged = [term for units, term in told.items() if term.judged and not term.alone and len(units) > 1]
    for term in judged[:1]:
        because = tuple(
            say("{worth}: {because}", worth=LABELS_OF_WORTH[label], because=text) for label, text in term.judged
        )
        yield Advice(one, term.names[0], "depends", because, f"unhang explain '{term.names[0]}'")
    if not judged and (flagged or (one.listed and one.part == "advice") or says("urges", one.text)):
        yield Advice(one, one.text, "unknown")
