"""The numbers that decide something (``thresholds.toml``), each with its unit and the reason or source of its value."""

from __future__ import annotations

import re
from functools import cache

from unhang.errors import KnowledgeError
from unhang.knowledge.tables import read_text

_VALUE = re.compile(r'^name = "(.+)"\nvalue = ([\d_.]+)$', re.MULTILINE)


def threshold(name: str) -> float:
    """The value of this name.

    Raises:
        KnowledgeError: the register has no such name.
    """
    try:
        return _values()[name]
    except KeyError:
        raise KnowledgeError(f"thresholds.toml has no {name}") from None


def whole_threshold(name: str) -> int:
    """The value of this name, which counts something.

    Raises:
        KnowledgeError: the register has no such name, or it is no whole number.
    """
    value = threshold(name)
    if not isinstance(value, int):
        raise KnowledgeError(f"thresholds.toml: {name} must be a whole number")
    return value


@cache
def _values() -> dict[str, float]:
    """Of every process that starts: the values alone, without reading the rest as TOML (4 ms)."""
    found = _VALUE.findall(read_text("thresholds.toml"))
    return {name: float(value) if "." in value else int(value) for name, value in found}
