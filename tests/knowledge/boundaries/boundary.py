"""A threshold, and facts whose answer is one thing on its near side and another on its far side."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import unhang
from unhang.knowledge.tables import read_rows

Answer = Callable[[Any], object]
SOURCES = Path(unhang.__file__).parent
BOUNDARIES: dict[str, Boundary] = {}
"""By name of the threshold; filled where the scenarios are written."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number and why it is what it is; ``file`` (below ``src/unhang/``) is the one that asks for it."""

    name: str
    value: int | float
    unit: str
    why: str
    file: str


def all_thresholds() -> tuple[Threshold, ...]:
    """The whole register, in its order."""
    rows = read_rows("thresholds.toml", "threshold", Threshold)
    assert len({row.name for row in rows}) == len(rows), "a name stands there twice"
    return rows


@dataclass(frozen=True, slots=True)
class Boundary:
    """``answer`` takes the measure, in the threshold's own unit. ``sides``: where it stands just before the value and
    just past it; None: at the whole number before and at the value, or 2 % around it."""

    answer: Answer
    sides: tuple[float, float] | None = None

    def around(self, value: float) -> tuple[float, float]:
        """The two measures to try."""
        if self.sides is not None:
            return self.sides
        return (value - 1, value) if isinstance(value, int) else (0.98 * value, 1.02 * value)


def turns(name: str, *sides: float) -> Callable[[Answer], Answer]:
    """The decorated function answers differently on the two ``sides`` of the threshold ``name``."""

    def keep(answer: Answer) -> Answer:
        assert name not in BOUNDARIES, f"{name} has two scenarios"
        BOUNDARIES[name] = Boundary(answer, (sides[0], sides[1]) if sides else None)
        return answer

    return keep


def place_of(row: Threshold) -> tuple[ModuleType, str]:
    """The module that asks for this threshold and the constant it keeps it in."""
    text = (SOURCES / row.file).read_text(encoding="utf-8")
    found = re.search(rf'^(\w+) = (?:whole_)?threshold\("{re.escape(row.name)}"\)$', text, re.MULTILINE)
    assert found, f"{row.file} has no constant that asks for {row.name}"
    return import_module("unhang." + row.file.removesuffix(".py").replace("/", ".")), found[1]
