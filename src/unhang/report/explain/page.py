"""What an explanation says, before it is said in a language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unhang.sentences import Text

if TYPE_CHECKING:
    from unhang.knowledge.known_incidents.incidents import Incident

PageLine = str | Text
"""A sentence of the knowledge (translated by its own words), or one made with ``say``."""


@dataclass(frozen=True, slots=True)
class ExplanationPage:
    """One thing explained."""

    kind: str
    """``cause``, ``variable``, ``message``, ``xid``, ``nccl-error``, ``status``, ``exit``, ``operation``, ``word``,
    ``subject``, ``version``, ``limit``, ``article``, ``advice: `` and its worth."""
    title: str
    meaning: tuple[PageLine, ...]
    harmless: PageLine | None = None
    do: tuple[PageLine, ...] = ()
    look: tuple[str, ...] = ()
    """Commands."""
    causes: tuple[str, ...] = ()
    """Ids of causes it may belong to, the usual first."""
    details: tuple[tuple[Text, PageLine], ...] = ()
    """Labelled facts, in order."""
    see_also: tuple[str, ...] = ()
    """Words to explain next."""
    source: str = ""
    checked: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was found for the words asked; without pages, words that look like them or have something in common."""

    asked: str
    pages: tuple[ExplanationPage, ...]
    similar: tuple[str, ...] = ()
    incidents: tuple[Incident, ...] = ()
    """Known incidents of this cause, with these words, or that look like the message."""
    nearest: bool = False
    """None of ``pages`` is about what is asked; they are the nearest there are."""
