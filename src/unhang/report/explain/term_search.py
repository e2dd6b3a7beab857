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
from unhang.knowledge.terms import Term, normalize_term, terms, terms_by_name, word_stem

NEAR, ALIKE = 0.6, 0.4
"""Shares of the weight: above which a page is the nearest page, and is named at all."""
_UNMET = 0.5
"""Terms that count as having a unit that none has."""
_ALIKE_SHOWN = 3
_DIGITS = 3  # of exit codes
_RELEASE = re.compile(r"(?:^|(?<=[a-z]))\d+(?:\.\d+)+$")
_RUN = re.compile(r"[a-z0-9][a-z0-9_./+-]*|[\u3400-\u9fff]+")


@dataclass(frozen=True, slots=True)
class TermsFound:
    """``terms`` that are what is asked about (``fit``) or nearest to it; where none is, names that are ``alike``."""

    terms: tuple[Term, ...] = ()
    fit: bool = False
    alike: tuple[str, ...] = ()


def find_terms(asked: str) -> TermsFound:
    """The terms that fit ``asked``, or those of its words that name a thing; else the nearest, or names alike."""
    spoken = _words("filling").sub(" ", normalize_term(asked))
    if about := _terms_about(asked) or _terms_about(spoken):
        return TermsFound(about, fit=True)
    near = TermsFound(tuple(terms_within(asked, near=True).values())[:1])
    return max(near, _nearest(asked), _nearest(spoken), key=lambda found: (len(found.terms), bool(found.alike)))


def _terms_about(asked: str) -> tuple[Term, ...]:
    """Those that cover all of ``asked``: each unit is one of a name, or spans the seam between two names."""
    within = terms_within(asked)
    covered = {unit for units in within for unit in units}
    ends, starts = {unit[-1] for unit in covered}, {unit[0] for unit in covered}
    rest = (unit for unit in units_of(asked) - covered if not unit.isdigit())
    if any(unit.isascii() or unit[0] not in ends or unit[-1] not in starts for unit in rest):
        return ()
    halves = {unit for units, term in within.items() if not term.alone for unit in units if not unit.isdigit()}
    telling = [term for term in within.values() if not term.alone] or within.values()
    return tuple(dict.fromkeys(term for term in telling if halves <= units_of(" ".join(term.names))))


def _nearest(asked: str) -> TermsFound:
    """The page of a name with most of the weight, the most telling known unit with it; or names that are alike."""
    held, index, within = _terms_with()[0], _names(), terms_within(asked)
    wanted = {unit for unit in units_of(asked) if held[unit] or not unit.isdigit()}
    total = _weight(wanted) or 1
    shares = {units: _weight(wanted & units) / max(total, _weight(units)) for units in index}
    alike = sorted((units for units in index if shares[units] >= ALIKE), key=lambda one: (-shares[one], index[one][0]))
    fewest = min((held[unit] for unit in wanted if held[unit]), default=0)
    best = next((units for units in alike if any(held[unit] == fewest for unit in wanted & units)), None)
    if best and max(shares[best], _weight({unit for units in within for unit in units}) / total) >= NEAR:
        return TermsFound((index[best][1],))
    names = dict.fromkeys(index[units][0] for units in (*within, *alike))
    return TermsFound(alike=tuple(names)[:_ALIKE_SHOWN])


def terms_within(text: str, *, near: bool = False) -> Mapping[frozenset[str], Term]:
    """Terms of which ``text`` holds a whole name, by the units of that name, the heaviest first; no name in another."""
    wanted, names, found = units_of(text), _names(near=near), dict[frozenset[str], Term]()
    for units in sorted((units for units in names if units <= wanted), key=lambda one: (-_weight(one), names[one][0])):
        if not any(units <= larger for larger in found) and (units == wanted or _is_said(units, text)):
            found[units] = names[units][1]
    return found


def _is_said(units: frozenset[str], text: str) -> bool:
    """A number of a longer text is no exit code (``-11``, ``139``) unless the text says so."""
    number = next(iter(units))
    is_code = len(units) == 1 and number.isdigit() and len(number) <= _DIGITS
    return not is_code or re.search(rf"(?:code|status|signal|退出码)\W*{number}\b", text, re.IGNORECASE) is not None


def share_named(text: str) -> float:
    """How much of the weight of ``text`` the names of terms in it have: all of it 1, none of it 0."""
    named = {unit for units in terms_within(text) for unit in units}
    return _weight(named) / (_weight(units_of(text)) or 1)


@cache
def asking_words() -> Mapping[str, tuple[str, ...]]:
    """The words of ``asking.toml`` by what they are for."""
    return read_typed("asking.toml", dict[str, tuple[str, ...]])


def units_of(text: str) -> frozenset[str]:
    """The units of ``text`` that say something; releases (``9.1``) do not."""
    spoken = _words("asking").sub(" ", normalize_term(text))
    return frozenset(unit for run in _RUN.findall(spoken) for unit in _units(run.rstrip("./+-")))


def _units(run: str) -> tuple[str, ...]:
    if run[0].isascii():
        word = _RELEASE.sub("", run)
        return (word_stem(word),) if word else ()
    return tuple(run[at : at + 2] for at in range(max(1, len(run) - 1)))


@cache
def _words(purpose: str) -> re.Pattern[str]:
    known = {**asking_words(), **read_typed("question_words.toml", dict[str, tuple[str, ...]])}
    words = sorted(known[purpose], key=len, reverse=True)
    return re.compile("|".join(rf"(?<![\w/-]){word}(?![\w/-])" if word.isascii() else word for word in words))


@cache
def _names(*, near: bool = False) -> Mapping[frozenset[str], tuple[str, Term]]:
    """Each name (``near``: of what has no page) and its term, by the units of the name; of names alike the first."""
    rows = [(name, term) for term in terms() for name in term.near] if near else terms_by_name().items()
    named = [(units_of(name), (name, term)) for name, term in rows]
    return {units: known for units, known in reversed(named) if units}


@cache
def _terms_with() -> tuple[Counter[str], int]:
    """How many terms have each unit, and how many terms there are."""
    held = {(unit, term.names[0]) for units, (_, term) in _names().items() for unit in units}
    return Counter(unit for unit, _ in held), len({title for _, title in held})


def _weight(units: Iterable[str]) -> float:
    held, count = _terms_with()
    return sum(math.log(1 + count / (held[unit] or _UNMET)) for unit in units)
