"""What an explanation says, before it is said in a language."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.findings import Text

Line = str | Text
"""A sentence of the knowledge (translated by its own words), or one made with ``say``."""


@dataclass(frozen=True, slots=True)
class Page:
    """One thing explained."""

    kind: str
    """``cause``, ``variable``, ``message``, ``xid``, ``nccl-error``, ``status``, ``exit``, ``operation``, ``word``,
    ``version``, ``limit``."""
    title: str
    meaning: tuple[Line, ...]
    harmless: Line | None = None
    do: tuple[Line, ...] = ()
    look: tuple[str, ...] = ()
    """Commands."""
    causes: tuple[str, ...] = ()
    """Ids of causes it may belong to, the usual first."""
    details: tuple[tuple[Text, Line], ...] = ()
    """Labelled facts, in order."""
    see_also: tuple[str, ...] = ()
    """Words to explain next."""
    source: str = ""
    checked: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was found for the words asked; without pages, what looks like them."""

    asked: str
    pages: tuple[Page, ...]
    similar: tuple[str, ...] = ()
