"""How often each cause lies behind a stall of which nothing is known: counted incidents, with published studies beside.

An incident is what somebody wrote about; broken cards and networks are repaired, not posted. So every cause has
:data:`PRIOR_INCIDENTS` pseudo-incidents, spread as if all were alike, but those that studies of whole clusters counted
divide their part as the studies divide it, each study having one vote.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache

import msgspec

from unhang.findings import Cause
from unhang.knowledge.known_incidents.incidents import Incident, incidents
from unhang.knowledge.tables import read_typed

PRIOR_INCIDENTS = 32.0
"""Pseudo-incidents of all causes together: a tenth of the library."""
_CAUSES = tuple(cause for cause in Cause if cause is not Cause.UNKNOWN)


class StudyRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    rows: tuple[StudyRow, ...]

    def shares(self) -> dict[Cause, float]:
        """Of the rows that map to a cause: the share of each cause."""
        numbers: dict[Cause, float] = defaultdict(float)
        for row in self.rows:
            if row.cause is not None:
                numbers[row.cause] += row.number
        whole = sum(numbers.values())
        return {cause: number / whole for cause, number in numbers.items()}


class StudiesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file: the day it was looked at, and its studies."""

    checked: datetime.date
    study: tuple[Study, ...]


@cache
def studies() -> tuple[Study, ...]:
    """The studies of ``base_rates.toml``."""
    return read_typed("base_rates.toml", StudiesFile).study


@cache
def library_shares() -> Mapping[Cause, float]:
    """The share of every cause in the library of incidents; they add up to 1."""
    return shares_among(incidents())


def shares_among(among: Iterable[Incident]) -> Mapping[Cause, float]:
    """The same, counted from these incidents."""
    counted = Counter(row.cause for row in among)
    whole = counted.total() + PRIOR_INCIDENTS
    return {cause: (counted[cause] + PRIOR_INCIDENTS * prior_shares()[cause]) / whole for cause in _CAUSES}


@cache
def prior_shares() -> Mapping[Cause, float]:
    """The share of each cause before an incident is counted: alike, but studied causes as the studies divide them."""
    of_studies: dict[Cause, float] = defaultdict(float)
    for study in studies():
        for cause, share in study.shares().items():
            of_studies[cause] += share
    votes = sum(of_studies.values())
    part = len(of_studies) / len(_CAUSES)
    return {cause: part * of_studies[cause] / votes if cause in of_studies else 1 / len(_CAUSES) for cause in _CAUSES}
