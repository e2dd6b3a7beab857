"""While a program waits for another part of its job: what it says (``waits.toml``), where it is (``frames.toml``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from unhang.knowledge.tables import read_rows
from unhang.knowledge.worlds.roles import Role


@dataclass(frozen=True, slots=True)
class WaitRow:
    """Lines with one of ``says`` tell that a ``waiter`` waits for an ``awaits``; with one of ``done``, no more."""

    says: tuple[str, ...]
    waiter: Role
    awaits: Role
    what: str
    """In English: what the waiter wants."""
    framework: str = ""
    done: tuple[str, ...] = ()
    printed_by: Role | None = None
    """Who prints it, where that is not the waiter."""


def wait_rows() -> tuple[WaitRow, ...]:
    """All rows, in the order of the file."""
    return read_rows("worlds/waits.toml", "wait", WaitRow)


@dataclass(frozen=True, slots=True)
class FrameRow:
    """A ``waiter`` whose stack has one of ``functions`` in one of ``files`` (ends of paths), and one of ``through``
    (``file:function`` or ``function``; empty: anything) further inside, waits for an ``awaits``."""

    files: tuple[str, ...]
    functions: tuple[str, ...]
    waiter: Role
    awaits: Role
    what: str
    """In English: what the waiter wants."""
    framework: str = ""
    through: tuple[str, ...] = ()
    process: str = ""
    """Name of the program, where two programs share the function."""


@cache
def frame_rows() -> Mapping[str, tuple[FrameRow, ...]]:
    """All rows by function."""
    found: dict[str, list[FrameRow]] = {}
    for row in read_rows("worlds/frames.toml", "frame", FrameRow):
        for function in row.functions:
            found.setdefault(function, []).append(row)
    return {function: tuple(rows) for function, rows in found.items()}
