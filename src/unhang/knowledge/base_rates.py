"""How often each cause lies behind a stall like this one: counted from the incidents, with published studies beside.

One estimator, naive Bayes, with one number to choose. The share of a cause is proportional to how often it occurs,
times how often each thing known of the situation occurs with it. Every frequency has :data:`PSEUDO` pseudo-incidents,
spread as the wider situation is: a value of a key among the incidents of a cause as among all incidents; a cause as if
all were alike, but those that studies of whole clusters counted (broken cards and networks are mended, not posted)
divide their part as the studies divide it, each study having one vote. What is not known of a situation, and a value
no incident has, takes no part. ``python -m benchmarks incidents`` measures it by leaving each incident out in turn, and
shows how the number was chosen.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache

import msgspec

from unhang.findings import Cause
from unhang.knowledge.incidents import Incident, Situation, incidents
from unhang.knowledge.tables import typed

PSEUDO = 32.0
"""Pseudo-incidents of every frequency: of the powers of two the one with the lowest log loss, each incident left out in
turn (``docs/benchmarks.md`` has the curve; it is flat between 16 and 64)."""
KEYS = ("phase", "after", "operation", "backend", "nodes")
_CAUSES = tuple(cause for cause in Cause if cause is not Cause.UNKNOWN)


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a published table. Without ``cause``, ``why`` says why it maps to none."""

    name: str
    number: float
    cause: Cause | None = None
    why: str = ""


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A published count of what ended or stalled training jobs."""

    id: str
    title: str
    link: str
    what: str
    unit: str
    rows: tuple[Row, ...]

    def shares(self) -> dict[Cause, float]:
        """Of the rows that map to a cause: the share of each cause."""
        numbers: dict[Cause, float] = defaultdict(float)
        for row in self.rows:
            if row.cause is not None:
                numbers[row.cause] += row.number
        whole = sum(numbers.values())
        return {cause: number / whole for cause, number in numbers.items()}


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file: the day it was looked at, and its studies."""

    checked: datetime.date
    study: tuple[Study, ...]


@cache
def studies() -> tuple[Study, ...]:
    """The studies of ``base_rates.toml``."""
    return typed("base_rates.toml", File).study


def shares(situation: Situation, among: Iterable[Incident] | None = None) -> dict[Cause, float]:
    """The share of every cause in ``situation``, the largest first; they add up to 1.

    ``among`` are the incidents to count, by default the whole library.
    """
    counted = _counted_library() if among is None else _Counts(among)
    logs = {cause: math.log(counted.cause(cause)) for cause in _CAUSES}
    for word in filter(counted.has, known_of(situation)):
        for cause in _CAUSES:
            logs[cause] += math.log(counted.word(word, cause))
    top = max(logs.values())
    weights = {cause: math.exp(value - top) for cause, value in logs.items()}
    whole = sum(weights.values())
    ordered = sorted(weights.items(), key=lambda pair: (-pair[1], pair[0].value))
    return {cause: weight / whole for cause, weight in ordered}


@cache
def before_counting() -> Mapping[Cause, float]:
    """The share of each cause before an incident is counted: alike, but studied causes as the studies divide them."""
    of_studies: dict[Cause, float] = defaultdict(float)
    for study in studies():
        for cause, share in study.shares().items():
            of_studies[cause] += share
    votes = sum(of_studies.values())
    part = len(of_studies) / len(_CAUSES)
    return {cause: part * of_studies[cause] / votes if cause in of_studies else 1 / len(_CAUSES) for cause in _CAUSES}


class _Counts:
    """Incidents counted by cause, and by cause with each thing known of their situation."""

    def __init__(self, rows: Iterable[Incident]) -> None:
        self._causes: Counter[Cause] = Counter()
        self._known: Counter[tuple[str, Cause | None]] = Counter()
        self._with: Counter[tuple[tuple[str, str], Cause | None]] = Counter()
        for row in rows:
            self._causes[row.cause] += 1
            for key in (*(key for key in KEYS if getattr(row, key) != "unknown"), "framework"):
                self._known.update([(key, row.cause), (key, None)])
            for word in known_of(row):
                self._with.update([(word, row.cause), (word, None)])

    def has(self, word: tuple[str, str]) -> bool:
        """Whether any incident has this value."""
        return self._with[word, None] > 0

    def cause(self, cause: Cause) -> float:
        """How often an incident is of ``cause``."""
        return (self._causes[cause] + PSEUDO * before_counting()[cause]) / (self._causes.total() + PSEUDO)

    def word(self, word: tuple[str, str], cause: Cause) -> float:
        """How often ``word`` stands in incidents of ``cause`` whose key is known."""
        key = word[0]
        wide = self._with[word, None] / self._known[key, None]
        return (self._with[word, cause] + PSEUDO * wide) / (self._known[key, cause] + PSEUDO)


@cache
def _counted_library() -> _Counts:
    return _Counts(incidents())


def known_of(situation: Situation) -> list[tuple[str, str]]:
    """What is known of a situation, as key and value."""
    known = [(key, getattr(situation, key)) for key in KEYS]
    return [word for word in known if word[1] != "unknown"] + [("framework", name) for name in situation.framework]
