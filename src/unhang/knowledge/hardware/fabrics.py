"""Network devices that NCCL needs a plug-in for (``fabrics.toml``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from unhang.knowledge.tables import rows_of


@dataclass(frozen=True, slots=True)
class Fabric:
    """One kind of device. ``suffix``: what ``NCCL_NET_PLUGIN`` calls its plug-in; ``folders``: where that may lie."""

    name: str
    path: str
    vendor: str
    plugin: str
    suffix: str
    folders: tuple[str, ...]
    source: str


@cache
def fabrics() -> tuple[Fabric, ...]:
    """All rows."""
    return tuple(
        Fabric(
            row["name"],
            row["path"],
            row.get("vendor", ""),
            row["plugin"],
            row["suffix"],
            tuple(row["folders"]),
            row["source"],
        )
        for row in rows_of("fabrics.toml", "fabric", ("name", "path", "plugin", "suffix", "source"))
    )
