"""What the risks about sameness share: how a difference between nodes is told."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.sameness.sameness import NodeDifference
from unhang.findings import Evidence, Source
from unhang.sentences import Text, say

CHECK = "sameness"
PLACES_TOLD = 4


def told(difference: NodeDifference) -> Iterator[Text]:
    """One line for each value, that of the fewest places first."""
    for value, places in sorted(difference.places.items(), key=lambda item: len(item[1])):
        yield say("{value} on {places}", value=value or say("nothing"), places=few(places))


def few(places: tuple[str, ...]) -> str:
    """Names of places, the first four and how many more."""
    more = len(places) - PLACES_TOLD
    return ", ".join(places[:PLACES_TOLD]) + (f" (+{more})" if more > 0 else "")


def evidence(difference: NodeDifference) -> tuple[Evidence, ...]:
    """The values as they were seen, one place each."""
    return tuple(
        Evidence(Source(places[0]), f"{difference.name}: {value}") for value, places in difference.places.items()
    )
