"""The advice that an article gives: variables, releases, and what ``passed_on.toml`` knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from unhang.findings import Cause
from unhang.knowledge.job.environment_variables import is_default, similar_names, variable, varies_by_start
from unhang.knowledge.tables import read_rows
from unhang.report.explain.article_sentences import (
    OF_NO_ADVICE,
    Sentence,
    advises,
    asks,
    clauses,
    finder,
    says,
    sentences,
)
from unhang.report.explain.page import PageLine
from unhang.report.explain.term_search import asking_words
from unhang.report.explain.version_pages import version_page
from unhang.sentences import say

Worth = Literal["right", "already", "depends", "no-effect", "costs", "harmful", "unknown"]
"""``already``: it is so here. ``unknown``: it reads as advice, and nothing is known of it."""
FEWEST, FEWEST_LISTED, QUOTED_SHARE = 2, 3, 0.6
"""Pieces of advice of which something is known, or that a list of advice holds, that make an article; and the share of
its sentences that programs may have written."""
_BEFORE, _FEWEST_LETTERS, _LONGEST = 14, 4, 260  # letters: from a `not` to them, of a sentence that may advise
_LONG, _LETTERS, _FEWEST_SENTENCES = 25, 0.72, 8  # letters of a whole sentence, their share in it; sentences of a post
_FEWEST_WORDS = 4  # of an English line without an end: what is shorter is a button of the page
_GIVEN = r"""["'`\])]*\s*(?:=|,\s*["']|\s+value:)\s*["'`]*([^\s"'`，,。;；)（(|\u3400-\u9fff]+)"""
_SPOKEN = r"""\s*(?:to|\||设为|设置为|设置成|设成|调整为|改为|为)\s*["'`]*(\d[\w.]*|[A-Z]{2,}\b)"""
_OF_A_LINE = r"""["']?\s*:\s+["']?([\w.,^-]+)["']?,?\s*(?:#.*)?$"""  # of a settings file: nothing else beside it
_SETTING = re.compile(rf"(?<![A-Za-z0-9_])([A-Z][A-Z0-9]*_[A-Z0-9_]+)(?:{_GIVEN}|{_SPOKEN}|{_OF_A_LINE})?")
_SET_HERE = re.compile(
    r"""(?i)["']?[a-z][\w./]*["']?(?:\s*=\s*(?:true|false)\b|(?:=|\s*:\s+)(?:[\d.]+|true|false),?\s*(?:$|[#/])"""
    r"""|=\S.*,\s*#\s)|export\s|.*\w=(?:true|false)\b|(?:.*\s)?--?[a-z]"""
)  # a line of a program that sets a switch or number, has a remark on an argument, or is a command with an option
_CALLED = re.compile(r"""[\w.]*["']?\s*[=(:]""")
_OF_A_RELEASE = say("It helps only where a known defect of the release in use fits what happens here.")
_OF_A_DEFAULT = say("It is the default: setting it changes nothing.")
_OF_NOBODY = say("NCCL and PyTorch read no variable of this name; a plugin may.")
_TRIED = say("The article tried it, and it did not help.")
_INTRODUCES = re.compile(
    r"(?i)(?:following|below|以下|如下|下面|示例).{0,99}[:：]$|^.{0,9}[:：]$|^!\[|^(?:.{0,12}[:：]\s*)?https?://\S+$"
)  # says only what is listed below it, or where to read on
_CLAUSE = re.compile(r"[,，、:：;()（）]")


@dataclass(frozen=True, slots=True)
class PassedOn:
    """One piece of advice that is passed on, and what it is worth where nothing is known of the job.

    ``says``: words near each other in a clause, ``a|b & c``; ``variables``: those, or packages, it is about as well.
    ``found``: rows of ``risks/`` by which `unhang check` says that a job needs it; ``fine``: that it is so already.
    ``causes``: all that it is a remedy for; empty where it may be any, besides the causes of ``found``.
    """

    id: str
    judgement: Worth
    because: str
    says: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    settle: str = ""
    found: tuple[str, ...] = ()
    fine: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice, where it stands, and what it is worth. ``key``: the row's id, the variable, package and
    release, or the sentence; ``settle``: the command that says what it depends on; ``value``: what a variable is set
    to; ``against``: the article advises against it; ``part``: what of the sentence it is, where that holds more."""

    sentence: Sentence
    key: str
    worth: Worth
    because: tuple[PageLine, ...] = ()
    settle: str = ""
    value: str | None = None
    row: PassedOn | None = None
    against: bool = False
    part: str = ""


def passed_on() -> tuple[PassedOn, ...]:
    """All rows of ``passed_on.toml``."""
    return read_rows("passed_on.toml", "passed_on", PassedOn)


def advice_in(text: str, *, few_known: bool | None = False) -> tuple[tuple[Sentence, ...], tuple[Advice, ...]]:
    """The author's own sentences, and each piece of advice once, in order; none for a log or a question. With
    ``few_known`` advice of which nothing is known makes an article as well (None: where the text is prose)."""
    told = tuple(sentences(text))
    few_known = _is_prose(told) if few_known is None else few_known
    own = tuple(one for one in told if not one.quoted)
    found: dict[tuple[str, bool, str], Advice] = {}
    for piece in (piece for one in own for piece in _pieces(one)):
        of_row = piece.row if piece.row is not None and piece.key == piece.row.id else None
        if of_row is not None and any(key.split()[0] in of_row.variables for key, _, _ in found):
            continue  # `export NCCL_P2P_DISABLE=1`, "this disables P2P"
        at = (piece.key, piece.against, "" if of_row is None else piece.sentence.text)
        earlier = found.setdefault(at, piece)
        if piece.value and earlier.value not in (None, piece.value):
            found.setdefault((piece.key, piece.against, piece.value), piece)
        elif piece.value and not (earlier.value and advises(earlier.sentence)):  # named or told of first, set later
            found[at] = piece
    known = {piece.key for piece in found.values() if few_known or piece.worth != "unknown"}
    listed = [piece for piece in found.values() if piece.sentence.listed and piece.sentence.part == "advice"]
    of_programs = len(told) - len(own)
    article = max(len(known) / FEWEST, len(listed) / FEWEST_LISTED) >= 1 and of_programs <= QUOTED_SHARE * len(told)
    return own, tuple(sorted(found.values(), key=lambda piece: piece.sentence.line)) if article else ()


def _pieces(one: Sentence) -> Sequence[Advice]:
    variables = list(_variables(one))
    set_here = [piece.key.casefold() for piece in variables if piece.value]
    found = [*variables, *_releases(one), *_rows(one, set_here)]
    return (found if len(found) > 1 else [replace(piece, part="") for piece in found]) or list(_unknown(one))


def _variables(one: Sentence) -> Iterator[Advice]:
    told = advises(one)
    for match in _SETTING.finditer(one.text):
        name, value = match[1], (match[2] or match[3] or match[4] or "").rstrip(".,?!:") or None
        row = variable(name)
        of = next((item for item in passed_on() if name in item.variables), None)
        if of is None and varies_by_start(name):
            continue
        known = of is not None or row is not None or name.startswith(("NCCL_", "TORCH_NCCL_"))
        typed = value is not None and (not one.code or f"{name}={value}" in one.text or "environ" in one.text)
        set_here = bool(value) and known and not asks(one)
        if set_here or (told and (typed or (known and not one.code))):
            effect = (row.effect,) if row is not None else ()
            settle = f"unhang explain {name}" if known else ""
            piece = Advice(one, name, "depends" if known else "unknown", effect, settle, value, part=match[0])
            if known and row is None and of is None:
                near = (say("Near it: {name}", name=other) for other in similar_names(name)[:1])
                piece = replace(piece, worth="no-effect", because=(_OF_NOBODY, *near), settle="")
            elif row is not None and value is not None and is_default(row, value):
                # what a row says of a variable is meant of setting it to something else
                of, piece = None, replace(piece, worth="already", because=(_OF_A_DEFAULT,), settle="")
            yield _judged(piece, of, one.text[: match.start()], one.text[match.end() :])


def _releases(one: Sentence) -> Iterator[Advice]:
    for match in _release().finditer(one.text) if advises(one) else ():
        asked = f"{match[1]} {match[3] or match[2]}"
        page = version_page(asked)
        known = tuple(text for label, text in page.details if str(label) != "Known")[:2] if page is not None else ()
        key = page.title if page is not None else asked.lower()
        settle = f"unhang explain '{key}'" if known else "unhang check --only versions -- COMMAND"
        piece = Advice(one, key, "depends", (_OF_A_RELEASE, *known), settle, part=match[0])
        yield _judged(piece, None, one.text[: match.start()], one.text[match.end() :])


@cache
def _release() -> re.Pattern[str]:
    names = sorted(asking_words()["packages"], key=len, reverse=True)
    between = r"(?:库|的|版本|version|release|to|at|到|至|为|[升降]级?|更新|回退|[\s=>~^:v])*"
    number = r"(\d+(?:\.\d+)+)"
    named = rf"(?<![\w/-])({'|'.join(map(re.escape, names))}|[a-z][\w-]+(?===)){between}{number}(?![\d.]*\+)"
    return re.compile(rf"{named}(?:\s*(?:to|到|至|->|→)\s*v?{number})?", re.IGNORECASE)


def _rows(one: Sentence, variables: Sequence[str]) -> Iterator[Advice]:
    """One row a clause that sets none of ``variables``: of those that fit the one with the most words in it."""
    if _INTRODUCES.search(one.text) or not (advises(one) or (one.code and one.part not in OF_NO_ADVICE)):
        return
    spoken = one.text.casefold()
    start = 0
    for clause in [spoken] if one.code else clauses(spoken):
        part, start = one.text[start : start + len(clause)].strip(" ,，、;；"), start + len(clause)
        fits = [(row, fit) for row in passed_on() for words in row.says if (fit := _fit(words, clause, code=one.code))]
        if fits and not any(name in clause for name in variables):
            row, (at, _) = max(fits, key=lambda fit: (fit[1][1], fit[0].judgement != "right"))
            yield _judged(Advice(one, row.id, "depends", part=part), row, clause[:at], clause[at:])


def _judged(piece: Advice, row: PassedOn | None, before: str, after: str = "") -> Advice:
    """``piece`` with what its row says; one that the article advises against, ``before`` it, is worth the opposite, and
    what did not help, as is said ``after`` it, had no effect."""
    if row is not None:
        piece = replace(piece, worth=row.judgement, because=(row.because,), settle=row.settle, row=row)
    if piece.worth in ("depends", "costs") and _failed(after):
        return replace(piece, worth="no-effect", because=(_TRIED, *piece.because), settle="")
    if piece.sentence.part != "failed" and not says("against", _CLAUSE.split(before[-_BEFORE:])[-1]):
        return piece
    opposite: dict[Worth, Worth] = {"harmful": "right", "costs": "right", "no-effect": "right", "unknown": "unknown"}
    other: Worth = "no-effect" if piece.sentence.part == "failed" else "depends"
    return replace(piece, worth=opposite.get(piece.worth, other), against=True)


def _fit(words: str, clause: str, *, code: bool) -> tuple[int, int] | None:
    """Where ``clause`` has all of ``words``, and how many letters they are; None where it has not. In ``code`` the
    first is a flag, or a name that is set or called."""
    first, *others = _finders(words)
    held = [found for other in others if (found := other.search(clause)) is not None]
    for match in first.finditer(clause) if len(held) == len(others) else ():
        if not code or "--" in clause[max(0, match.start() - 2) : match.end()] or _CALLED.match(clause, match.end()):
            return match.start(), sum(len(found[0]) for found in (match, *held))
    return None


@cache
def _finders(words: str) -> tuple[re.Pattern[str], ...]:
    return tuple(finder(tuple(group.split("|"))) for group in words.split(" & "))


def _unknown(one: Sentence) -> Iterator[Advice]:
    """A sentence, or a line of a program, that advises, and of which nothing is known."""
    sets = not one.code or (one.part == "advice" and _SET_HERE.match(one.text) is not None)
    button = one.text.isascii() and one.text[-1].isalnum() and len(one.text.split()) < _FEWEST_WORDS
    said = (
        (one.listed or one.code or not button)
        and len(one.text) <= _LONGEST
        and sum(map(str.isalpha, one.text)) >= _FEWEST_LETTERS
    )
    if sets and said and advises(one) and not _INTRODUCES.search(one.text):
        yield _judged(Advice(one, one.text, "unknown"), None, "")


def _is_prose(told: Sequence[Sentence]) -> bool:
    """An author wrote most of it, in whole sentences: no log, and no question of one line."""
    own = [one for one in told if not one.quoted and not one.code]
    whole = [
        one for one in own if len(one.text) >= _LONG and sum(map(str.isalpha, one.text)) >= _LETTERS * len(one.text)
    ]
    return len(whole) >= max(_FEWEST_SENTENCES, len(told) - len(own))


def _failed(after: str) -> bool:
    found = finder(asking_words()["failed"]).search(after.casefold())
    return found is not None and not says("conditions", after[: found.start()])
