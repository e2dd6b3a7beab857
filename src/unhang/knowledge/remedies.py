"""Remedies by name: what to change stands in ``knowledge/remedies.toml``, which a reader can correct without code."""

from __future__ import annotations

from functools import cache
from typing import Any

from unhang.findings import Remedy, RemedyKind
from unhang.knowledge.tables import read_rows
from unhang.sentences import Text

_TEXTS = ("title", "change", "cost", "verify")


@cache
def _rows() -> dict[str, dict[str, Any]]:
    return {row["id"]: dict(row) for row in read_rows("remedies.toml", "remedy", ("id", "kind", *_TEXTS))}


def remedy(name: str, /, **values: Any) -> Remedy:
    """The remedy ``name`` with its places filled. Raises ``KeyError`` for one that is not in the table."""
    row = _rows()[name]
    title, change, cost, verify = (Text(row[part], values) for part in _TEXTS)
    kind = RemedyKind(row["kind"])
    return Remedy(title, kind, change, cost, verify, row.get("set", {}), tuple(row.get("unset", ())))


def remedy_sentences() -> tuple[str, ...]:
    """Every sentence of the table, for the catalogues."""
    return tuple(row[part] for row in _rows().values() for part in _TEXTS)
