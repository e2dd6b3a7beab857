"""Which terms fit the words somebody asks with, and how well: one common word of many makes no page fit.

A question is cut into units: Latin words without their endings, and pairs of neighbouring Chinese characters, for which
no dictionary is needed. A unit weighs the more the fewer terms have it, most where none has; words of asking weigh
nothing. A name is within a question that has all its units; it is near one with which it shares most of the weight.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from unhang.knowledge.tables import read_typed
from unhang.knowledge.terms import Term, normalize_term, terms_by_name, word_stem

FITS, NEAR, ALIKE = 0.75, 0.6, 0.4
"""Shares of the weight: above which a page is about what is asked, is the nearest page, and is named at all."""
_UNMET = 0.5
"""Terms that count as having a unit that none has."""
_ALIKE_SHOWN = 3
_RELEASE = re.compile(r"(?:^|(?<=[a-z]))\d+(?:\.\d+)+$")
_RUN = re.compile(r"[a-z0-9][a-z0-9_./+-]*|[\u3400-\u9fff]+")


@dataclass(frozen=True, slots=True)
class TermsFound:
    """``terms``: the most telling first; ``fit``: they are what is asked about, else the nearest. ``alike``: names with
    something in common with it, where there is no nearest."""

    terms: tuple[Term, ...] = ()
    fit: bool = False
    alike: tuple[str, ...] = ()


def find_terms(asked: str) -> TermsFound:
    """The terms that fit ``asked``; where none does the nearest one, or names that are alike."""
    held, _ = _terms_with()
    wanted = frozenset(unit for unit in units_of(asked) if held[unit] or not unit.isdigit())
    total, index = _weight(wanted), _names()
    if not total:
        return TermsFound()
    within = terms_within(asked)
    covered = _weight({unit for units in within for unit in units}) / total
    telling = tuple(term for term in within.values() if not term.alone) or tuple(within.values())
    halves = {unit for units, term in within.items() if not term.alone for unit in units if not unit.isdigit()}
    about = tuple(term for term in telling if halves <= units_of(" ".join(term.names)))  # not of one half of it
    if covered >= FITS and about:
        return TermsFound(tuple(dict.fromkeys(about)), fit=True)
    shares = ((_weight(wanted & units) / max(total, _weight(units)), units) for units in index)
    alike = sorted(
        ((share, *index[units]) for share, units in shares if share >= ALIKE), key=lambda one: (-one[0], one[1])
    )
    if alike and alike[0][0] >= max(NEAR, covered):
        return TermsFound((alike[0][2],))
    if covered >= NEAR:
        return TermsFound(telling[:1])
    names = (*(index[units][0] for units in within), *(name for _, name, _ in alike))
    return TermsFound(alike=tuple(dict.fromkeys(names))[:_ALIKE_SHOWN])


def terms_within(text: str) -> Mapping[frozenset[str], Term]:
    """Terms of which ``text`` holds a whole name, by the units of that name, the heaviest first; no name in another."""
    wanted, found = units_of(text), dict[frozenset[str], Term]()
    for units in sorted(
        (units for units in _names() if units <= wanted), key=lambda one: (-_weight(one), _names()[one][0])
    ):
        if not any(units <= larger for larger in found):
            found[units] = _names()[units][1]
    return found


@cache
def asking_words() -> Mapping[str, tuple[str, ...]]:
    """The words of ``asking.toml`` by what they are for."""
    return read_typed("asking.toml", dict[str, tuple[str, ...]])


def units_of(text: str) -> frozenset[str]:
    """The units of ``text`` that say something; releases (``9.1``) do not."""
    spoken = _words_of_asking().sub(" ", normalize_term(text))
    return frozenset(unit for run in _RUN.findall(spoken) for unit in _units(run.rstrip("./+-")))


def _units(run: str) -> tuple[str, ...]:
    if run[0].isascii():
        word = _RELEASE.sub("", run)
        return (word_stem(word),) if word else ()
    return tuple(run[at : at + 2] for at in range(len(run) - 1))


@cache
def _words_of_asking() -> re.Pattern[str]:
    words = sorted(asking_words()["asking"], key=len, reverse=True)
    return re.compile("|".join(rf"(?<![\w/-]){word}(?![\w/-])" if word.isascii() else word for word in words))


@cache
def _names() -> Mapping[frozenset[str], tuple[str, Term]]:
    """Each name and its term, by the units of the name; of several names alike the first counts."""
    named = [(units_of(name), (name, term)) for name, term in terms_by_name().items()]
    return {units: known for units, known in reversed(named) if units}


@cache
def _terms_with() -> tuple[Counter[str], int]:
    """How many terms have each unit, and how many terms there are."""
    held = {(unit, term.names[0]) for units, (_, term) in _names().items() for unit in units}
    return Counter(unit for unit, _ in held), len({title for _, title in held})


def _weight(units: Iterable[str]) -> float:
    held, count = _terms_with()
    return sum(math.log(1 + count / (held[unit] or _UNMET)) for unit in units)
