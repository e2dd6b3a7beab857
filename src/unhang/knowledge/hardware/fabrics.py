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
    plugin: str
    suffix: str
    source: str
    vendor: str = ""
    folders: tuple[str, ...] = ()


@cache
def plugin_fabrics() -> tuple[PluginFabric, ...]:
    """Fabrics that need a plug-in of NCCL (``fabrics.toml``)."""
    return read_rows("fabrics.toml", "fabric", PluginFabric)
