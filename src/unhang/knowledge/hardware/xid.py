"""What an Xid of the NVIDIA driver says about a stall (``xid.toml``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from unhang.errors import KnowledgeError
from unhang.knowledge.tables import read_rows

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
    return _rows().get(code)


def xid_rows() -> tuple[XidRow, ...]:
    """All known Xid codes, in ascending order."""
    return tuple(_rows().values())


@cache
def _rows() -> dict[int, XidRow]:
    found = read_rows("xid.toml", "xid", XidRow)
    rows = {row.code: row for row in found}
    if len(rows) < len(found):
        raise KnowledgeError("xid.toml: a code stands twice")
    return rows
