"""Settings that work and cost more than people who copy them know (``costly.toml``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from unhang.knowledge.tables import read_rows


@dataclass(frozen=True, slots=True)
class CostlySetting:
    """Values of variables that cost speed or hide a stall. ``cause``: id of the stall it would lead to or hide."""

    names: tuple[str, ...]
    values: tuple[str, ...]
    """As the owner reads them."""
    cause: str
    effect: str
    unless: str
    """When it is right all the same."""
    source: str


def find_costly_setting(name: str, value: str) -> CostlySetting | None:
    """What ``name`` set to ``value`` (as its owner reads it) costs; None when it is no such setting."""
    row = _by_name().get(name)
    return row if row is not None and value.upper() in row.values else None


def costly_settings() -> tuple[CostlySetting, ...]:
    """Settings that cost speed or hide a stall, each row once."""
    return tuple(dict.fromkeys(_by_name().values()))


@cache
def _by_name() -> Mapping[str, CostlySetting]:
    return {name: row for row in read_rows("costly.toml", "costly", CostlySetting) for name in row.names}
