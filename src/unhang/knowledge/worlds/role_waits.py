"""What a program says while it waits for another part of its job (``waits.toml``)."""

from __future__ import annotations

from dataclasses import dataclass

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
