"""What the incident library is worth, each incident left out in turn: how often its cause is among the first shares of
its situation (:mod:`unhang.knowledge.base_rates`), and how often incidents that look like it have its cause
(:mod:`unhang.knowledge.similar_incidents`), by the number of pseudo-incidents and by the floor.

    python -m benchmarks incidents
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unittest.mock import patch

from unhang.knowledge import base_rates, similar_incidents
from unhang.knowledge.incidents import Incident, Situation, incidents

PSEUDO = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
FLOORS = (0, 10, 12, 14, 16, 18, 20, 24, 28)


@dataclass(frozen=True, slots=True)
class Shares:
    """How the shares fared on all incidents."""

    first: int
    among_three: int
    log_loss: float
    """Mean of the negative natural logarithm of the share that the true cause got."""


@dataclass(frozen=True, slots=True)
class Similar:
    """How what is shown above a floor fared."""

    shown: int
    of_same_cause: int
    asked_and_answered: int


def main(_: Sequence[str] | None = None) -> int:
    """Print both tables."""
    print(f"{len(incidents())} incidents\npseudo-incidents, first, among three, log loss; without the situation")
    for pseudo in PSEUDO:
        print(
            f"{pseudo:4g}", *(f"{s.first} {s.among_three} {s.log_loss:.3f}" for s in (shares(pseudo), marginal(pseudo)))
        )
    print("floor, shown, of the same cause, incidents for which something is shown")
    for floor in FLOORS:
        row = similar(floor)
        print(f"{floor:4}", row.shown, f"{row.of_same_cause / max(row.shown, 1):.3f}", row.asked_and_answered)
    return 0


def shares(pseudo: float = base_rates.PSEUDO) -> Shares:
    """Of every incident, asked with its situation, counted from the others."""
    return _shares([(row, row, others) for row, others in _left_out()], pseudo)


def marginal(pseudo: float = base_rates.PSEUDO) -> Shares:
    """The same, asked with nothing."""
    return _shares([(row, Situation(), others) for row, others in _left_out()], pseudo)


def similar(floor: float = similar_incidents.FLOOR) -> Similar:
    """Of every incident, asked with its signs and situation among the others."""
    shown = [
        (row, [found for score, found in ranked[: similar_incidents.SHOWN] if score >= floor])
        for row, ranked in _ranked()
    ]
    same = sum(found.cause is row.cause for row, rows in shown for found in rows)
    return Similar(sum(len(rows) for _, rows in shown), same, sum(bool(rows) for _, rows in shown))


def _shares(asked: Sequence[tuple[Incident, Situation, Sequence[Incident]]], pseudo: float) -> Shares:
    first = three = 0
    loss = 0.0
    with patch.object(base_rates, "PSEUDO", pseudo):
        for row, situation, others in asked:
            told = base_rates.shares(situation, others)
            order = list(told)
            first += order[0] is row.cause
            three += row.cause in order[:3]
            loss -= math.log(told[row.cause])
    return Shares(first, three, loss / len(asked))


def _ranked() -> Iterator[tuple[Incident, list[tuple[float, Incident]]]]:
    for row, others in _left_out():
        yield row, similar_incidents.likeness(row, " ".join(row.signs), others)


def _left_out() -> Iterator[tuple[Incident, Sequence[Incident]]]:
    rows = incidents()
    for number, row in enumerate(rows):
        yield row, rows[:number] + rows[number + 1 :]
