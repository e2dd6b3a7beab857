"""What the incident library is worth, each incident left out in turn: how often incidents that look like it
(:mod:`unhang.knowledge.known_incidents.similar_incidents`) have its cause, by the floor of likeness.

    python -m benchmarks incidents
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unhang.knowledge.known_incidents import similar_incidents
from unhang.knowledge.known_incidents.incidents import Incident, incidents

FLOORS = (0, 10, 12, 14, 16, 18, 20, 24, 28)


@dataclass(frozen=True, slots=True)
class Similar:
    """How what is shown above a floor fared."""

    shown: int
    of_same_cause: int
    asked_and_answered: int


def main(_: Sequence[str] | None = None) -> int:
    """Print the table."""
    print(f"{len(incidents())} incidents\nfloor, shown, of the same cause, incidents for which something is shown")
    for floor in FLOORS:
        row = similar(floor)
        print(f"{floor:4}", row.shown, f"{row.of_same_cause / max(row.shown, 1):.3f}", row.asked_and_answered)
    return 0


def similar(floor: float = similar_incidents.MIN_SIMILARITY) -> Similar:
    """Of every incident, asked with its signs and situation among the others."""
    shown = [
        (row, [found for score, found in ranked[: similar_incidents.MAX_SHOWN] if score >= floor])
        for row, ranked in _ranked()
    ]
    same = sum(found.cause is row.cause for row, rows in shown for found in rows)
    return Similar(sum(len(rows) for _, rows in shown), same, sum(bool(rows) for _, rows in shown))


def _ranked() -> Iterator[tuple[Incident, list[tuple[float, Incident]]]]:
    for row, others in _left_out():
        yield row, similar_incidents.incidents_by_similarity(row, " ".join(row.signs), others)


def _left_out() -> Iterator[tuple[Incident, Sequence[Incident]]]:
    rows = incidents()
    for number, row in enumerate(rows):
        yield row, rows[:number] + rows[number + 1 :]
