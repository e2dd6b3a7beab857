"""What an explanation says, before it is said in a language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unhang.findings import Text

if TYPE_CHECKING:
    from unhang.knowledge.known_incidents.incidents import Incident

Line = str | Text
"""A sentence of the knowledge (translated by its own words), or one made with ``say``."""


@dataclass(frozen=True, slots=True)
class Page:
    """One thing explained."""

    kind: str
    """``cause``, ``variable``, ``message``, ``xid``, ``nccl-error``, ``status``, ``exit``, ``operation``, ``word``,
    ``subject``, ``version``, ``limit``."""
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
    """What was found for the words asked; with neither pages nor incidents, what looks like them."""

    asked: str
    pages: tuple[Page, ...]
    similar: tuple[str, ...] = ()
    incidents: tuple[Incident, ...] = ()
    """Known incidents of this cause, with these words, or that look like the message; their texts are English."""
