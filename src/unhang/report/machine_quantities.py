"""What a machine measures beside a job: its words, units and order (``knowledge/machine_series.toml``)."""

from __future__ import annotations

import re
from functools import cache

import msgspec

from unhang.knowledge.tables import read_typed
from unhang.knowledge.words import Words, text_of
from unhang.sentences import Text


class Quantity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of ``knowledge/machine_series.toml``."""

    pattern: str
    title: Words
    unit: str = ""
    factor: float = 1.0


@cache
def _quantities() -> list[Quantity]:
    return read_typed("machine_series.toml", dict[str, list[Quantity]])["quantity"]


def lane_place(name: str) -> int:
    """Where it comes among those one asks for; what has no title comes last."""
    known = _quantities()
    return next((at for at, one in enumerate(known) if re.fullmatch(one.pattern, name)), len(known))


def lane_title(name: str) -> tuple[Text, str, float]:
    """The title of a quantity, its unit, and what its values are multiplied with; a strange one keeps its name."""
    at = lane_place(name)
    if at == len(_quantities()):
        return Text("{name}", {"name": name}), "", 1.0
    one = _quantities()[at]
    found = re.fullmatch(one.pattern, name)
    return text_of(one.title, {"name": found[1]} if found and found.groups() else {}), one.unit, one.factor


def measured(value: float, unit: str) -> str:
    """``71.2 GB``; only bytes get a prefix."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if unit.startswith("B") else ():
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:g} {unit}"
