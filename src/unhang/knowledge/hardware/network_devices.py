"""Network devices and interfaces: those that NCCL needs a plug-in for (``fabrics.toml``), those that lead nowhere else
(``inner_interfaces.toml``), and in which order NCCL looks for one (``interface_order.toml``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from unhang.knowledge.job.versions import version_numbers
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


@dataclass(frozen=True, slots=True)
class _NodeLocalRow:
    prefixes: tuple[str, ...]
    what: str


def node_local_interface(name: str) -> str:
    """What the interface is (``a bridge of Docker``); empty for one that may lead to other nodes."""
    return next((what for prefix, what in _node_local_prefixes().items() if name.startswith(prefix)), "")


@cache
def _node_local_prefixes() -> Mapping[str, str]:
    """What it is, by the beginning of the name."""
    rows = read_rows("inner_interfaces.toml", "inner", _NodeLocalRow)
    return {prefix: row.what for row in rows for prefix in row.prefixes}


@dataclass(frozen=True, slots=True)
class InterfaceOrder:
    """``steps``: beginnings of names, ``^`` before a list that is passed over; ``since`` is the first release."""

    steps: tuple[str, ...]
    running: bool
    """Interfaces that are down are passed over."""
    source: str
    since: str = ""
    until: str = ""
    """The first release of another order; empty for none."""


def interface_order(nccl: str | None) -> InterfaceOrder:
    """The order of this release of NCCL; the newest for one that is not known."""
    numbers = version_numbers(nccl or "")
    rows = _interface_orders()
    if numbers is None:
        return rows[-1]
    return next(row for row in reversed(rows) if numbers >= (version_numbers(row.since) or ()))


@cache
def _interface_orders() -> tuple[InterfaceOrder, ...]:
    """Oldest first."""
    return read_rows("interface_order.toml", "order", InterfaceOrder)
