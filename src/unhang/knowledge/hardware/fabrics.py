"""Network devices that NCCL needs a plug-in for (``fabrics.toml``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from unhang.knowledge.tables import read_rows


@dataclass(frozen=True, slots=True)
class PluginFabric:
    """One kind of device. ``suffix``: what ``NCCL_NET_PLUGIN`` calls its plug-in; ``folders``: where that may lie."""

    name: str
    path: str
    vendor: str
    plugin: str
    suffix: str
    folders: tuple[str, ...]
    source: str


@cache
def plugin_fabrics() -> tuple[PluginFabric, ...]:
    """Fabrics that need a plug-in of NCCL (``fabrics.toml``)."""
    return tuple(
        PluginFabric(
            row["name"],
            row["path"],
            row.get("vendor", ""),
            row["plugin"],
            row["suffix"],
            tuple(row["folders"]),
            row["source"],
        )
        for row in read_rows("fabrics.toml", "fabric", ("name", "path", "plugin", "suffix", "source"))
    )
