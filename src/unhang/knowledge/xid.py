"""What an Xid of the NVIDIA driver says about a stall (``xid.toml``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from unhang.errors import KnowledgeError
from unhang.knowledge.tables import rows_of

KINDS = ("gpu", "link", "program", "echo", "note")


@dataclass(frozen=True, slots=True)
class XidRow:
    """One code."""

    code: int
    name: str
    kind: str
    """``gpu`` (card or firmware), ``link`` (NVLink, PCIe), ``program`` (the job's kernel), ``echo`` (a consequence),
    ``note`` (stops nothing by itself)."""
    meaning: str
    example: str
    """A line of the kernel log with this code."""
    source: str
    checked: str
    doubt: bool = False
    """It may as well be an effect of something else."""


def xid_row(code: int) -> XidRow | None:
    """The row of this code; None for codes that the table does not hold."""
    return _rows().get(code)


def xid_rows() -> tuple[XidRow, ...]:
    """All rows, by code."""
    return tuple(_rows().values())


@cache
def _rows() -> dict[int, XidRow]:
    rows: dict[int, XidRow] = {}
    for table in rows_of("xid.toml", "xid", ("code", "name", "kind", "meaning", "example", "source", "checked")):
        row = XidRow(**{**table, "checked": str(table["checked"])})
        if row.kind not in KINDS or row.code in rows:
            raise KnowledgeError(f"xid.toml: code {row.code} has no known kind or stands twice")
        rows[row.code] = row
    return rows
