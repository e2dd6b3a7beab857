"""What an Xid of the NVIDIA driver says about a stall (``xid.toml``); network devices that NCCL needs a plug-in for
(``fabrics.toml``), interfaces that lead nowhere else (``inner_interfaces.toml``), and in which order NCCL looks for one
(``interface_order.toml``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from unhang.knowledge.job.versions import version_numbers
from unhang.knowledge.tables import read_rows, rows_by

Kind = Literal["gpu", "link", "program", "echo", "note"]
_LINE = re.compile(r"NVRM: Xid \(PCI:(?P<bus>[0-9a-fA-F:.]+)\): (?P<code>\d{1,6})(?:, pid='?(?P<pid>\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class XidRow:
    """What one Xid code of NVIDIA's driver means."""

    code: int
    name: str
    kind: Kind
    """``gpu`` (card or firmware), ``link`` (NVLink, PCIe), ``program`` (the job's kernel), ``echo`` (a consequence),
    ``note`` (stops nothing by itself)."""
    meaning: str
    example: str
    """A line of the kernel log with this code."""
    source: str
    checked: str
    doubt: bool = False
    """It may as well be an effect of something else."""


@dataclass(frozen=True, slots=True)
class KernelLogXid:
    """An Xid as the kernel log tells it. ``pid``: of the process, where the driver names one."""

    code: int
    bus: str
    """Of the card, in lower case: ``0000:65:00``."""
    pid: int | None = None


def find_xid(line: str) -> KernelLogXid | None:
    """The Xid that a line of the kernel log tells of."""
    found = _LINE.search(line)
    if found is None:
        return None
    return KernelLogXid(int(found["code"]), found["bus"].lower(), int(found["pid"]) if found["pid"] else None)


def xid_row(code: int) -> XidRow | None:
    """The row of this code; None for codes that the table does not hold."""
    return rows_by("code", "xid.toml", "xid", XidRow).get(code)


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


def plugin_fabrics() -> tuple[PluginFabric, ...]:
    """Fabrics that need a plug-in of NCCL (``fabrics.toml``)."""
    return read_rows("fabrics.toml", "fabric", PluginFabric)


@dataclass(frozen=True, slots=True)
class _NodeLocalRow:
    prefixes: tuple[str, ...]
    what: str


def node_local_interface(name: str) -> str:
    """What the interface is (``a bridge of Docker``); empty for one that may lead to other nodes."""
    rows = read_rows("inner_interfaces.toml", "inner", _NodeLocalRow)
    return next((row.what for row in rows if name.startswith(row.prefixes)), "")


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
    rows = read_rows("interface_order.toml", "order", InterfaceOrder)  # oldest first
    if numbers is None:
        return rows[-1]
    return next(row for row in reversed(rows) if numbers >= (version_numbers(row.since) or ()))
