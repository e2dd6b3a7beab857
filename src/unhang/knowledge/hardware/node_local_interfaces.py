"""Interfaces that lead to containers or virtual machines of the same node (``inner_interfaces.toml``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from unhang.knowledge.tables import read_rows


@dataclass(frozen=True, slots=True)
class _Row:
    prefixes: tuple[str, ...]
    what: str


def node_local_interface(name: str) -> str:
    """What the interface is (``a bridge of Docker``); empty for one that may lead to other nodes."""
    return next((what for prefix, what in node_local_prefixes().items() if name.startswith(prefix)), "")


@cache
def node_local_prefixes() -> Mapping[str, str]:
    """What it is, by the beginning of the name."""
    rows = read_rows("inner_interfaces.toml", "inner", _Row)
    return {prefix: row.what for row in rows for prefix in row.prefixes}
