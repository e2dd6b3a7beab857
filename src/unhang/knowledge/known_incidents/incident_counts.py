"""What the logs of known incidents looked like: counts behind the differential (``situations.tsv``).

A line is one public incident with an established cause: its id, cause, link, and the features its log showed
(``facts/incident_features.py``), written by ``scripts/count_situations.py``. :func:`cause_shares` weighs a new
log by them: naive Bayes over the features that tell most, whose constants are chosen by leaving one incident out
(docs/reasoning.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache

from unhang.findings import Cause
from unhang.knowledge.known_incidents.base_rates import library_shares
from unhang.knowledge.tables import read_text

MAX_FEATURES = 10
"""So many features of a log are weighed: those that change the odds most. More repeat each other."""
FEATURE_WEIGHT = 0.5
"""Features of one log hang together: their log-odds count by half."""
PRIOR_INCIDENTS = 12.0
"""Incidents of average looks that each cause is thought to have had besides the counted ones."""
MIN_INCIDENTS = 3
"""Features of fewer incidents are not weighed."""


@dataclass(frozen=True, slots=True)
class CountedIncident:
    """A known incident as it is counted: its cause, and the features its log had."""

    id: str
    cause: str
    link: str
    features: frozenset[str]


@dataclass(frozen=True, slots=True)
class CauseShare:
    """How much of what looks like this had ``cause``, from 0 to 1. ``telling``: the features that speak most for it,
    each with how many incidents showed it and how many of these had this cause."""

    cause: str
    share: float
    telling: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class _Counts:
    causes: Counter[str]
    features: Counter[str]
    both: Counter[tuple[str, str]]


@cache
def load_counted_incidents() -> tuple[CountedIncident, ...]:
    """All counted incidents, in the order of their ids."""
    text = read_text("situations.tsv")
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(CountedIncident(name, cause, link, frozenset(shown.split(" "))) for name, cause, link, shown in rows)


@cache
def _counted() -> _Counts:
    return count_features(load_counted_incidents())


def count_features(situations: tuple[CountedIncident, ...]) -> _Counts:
    """How often each feature went with each cause."""
    counts = _Counts(Counter(), Counter(), Counter())
    for situation in situations:
        counts.causes[situation.cause] += 1
        for feature in situation.features | unmentioned_causes(situation.features):
            counts.features[feature] += 1
            counts.both[situation.cause, feature] += 1
    return counts


def unmentioned_causes(features: AbstractSet[str]) -> frozenset[str]:
    """Causes that log lines can name but neither words nor a detector named: their absence counts against them."""
    named = {feature.split(":")[1] for feature in features if feature.startswith(("words:", "found:"))}
    return frozenset(f"unnamed:{cause}" for cause in _mentionable_causes() - named)


@cache
def _mentionable_causes() -> frozenset[str]:
    shown = (feature for situation in load_counted_incidents() for feature in situation.features)
    return frozenset(feature.split(":")[1] for feature in shown if feature.startswith("words:"))


def cause_shares(features: AbstractSet[str], counts: _Counts | None = None) -> tuple[CauseShare, ...]:
    """Every cause that was ever counted, the largest share first; they add up to 1."""
    counts = counts or _counted()
    if not counts.causes:
        return ()
    shown = features | unmentioned_causes(features)
    known = sorted(feature for feature in shown if counts.features[feature] >= MIN_INCIDENTS)
    weighed = {cause: _telling(cause, known, counts) for cause in sorted(counts.causes)}
    odds = {
        cause: math.log(_prior_share(cause, counts)) + FEATURE_WEIGHT * sum(weight for weight, _ in telling)
        for cause, telling in weighed.items()
    }
    most = max(odds.values())
    parts = {cause: math.exp(odd - most) for cause, odd in odds.items()}
    whole = sum(parts.values())
    found = (
        CauseShare(
            cause,
            part / whole,
            tuple((f, counts.features[f], counts.both[cause, f]) for weight, f in weighed[cause] if weight > 0),
        )
        for cause, part in parts.items()
    )
    return tuple(sorted(found, key=lambda share: (-share.share, share.cause)))


def _prior_share(cause: str, counts: _Counts) -> float:
    """The share of a cause before anything is seen: between that of the counted logs and that of the library."""
    return math.sqrt(counts.causes[cause] / counts.causes.total() * library_shares()[Cause(cause)])


def _telling(cause: str, features: list[str], counts: _Counts) -> list[tuple[float, str]]:
    """Log-odds of ``cause`` by feature, those that change it most first."""
    total, own = counts.causes.total(), counts.causes[cause]
    weights = []
    for feature in features:
        usual = counts.features[feature] / total
        here = (counts.both[cause, feature] + PRIOR_INCIDENTS * usual) / (own + PRIOR_INCIDENTS)
        weights.append((math.log(here / usual), feature))
    return sorted(weights, key=lambda item: (-abs(item[0]), item[1]))[:MAX_FEATURES]
