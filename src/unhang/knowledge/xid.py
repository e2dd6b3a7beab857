"""What an Xid of the NVIDIA driver says about a stall (``xid.toml``)."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from unhang.errors import KnowledgeError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KINDS = ("gpu", "link", "program", "echo")


@dataclass(frozen=True, slots=True)
class XidRow:
    """One code."""

    code: int
    name: str
    kind: str
    """``gpu`` (card or firmware), ``link`` (NVLink, PCIe), ``program`` (the job's kernel), ``echo`` (a consequence)."""
    meaning: str


def xid_row(code: int) -> XidRow | None:
    """The row of this code; None for codes without a word about stalls."""
    return _rows().get(code)


@cache
def _rows() -> dict[int, XidRow]:
    table = tomllib.loads((files("unhang.knowledge") / "xid.toml").read_text(encoding="utf-8"))
    rows: dict[int, XidRow] = {}
    for row in table["xid"]:
        if row["kind"] not in KINDS or row["code"] in rows:
            raise KnowledgeError(f"xid.toml: code {row['code']} has no known kind or stands twice")
        rows[row["code"]] = XidRow(row["code"], row["name"], row["kind"], row["meaning"])
    return rows
