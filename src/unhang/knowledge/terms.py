"""Words people search (``terms.toml``): NCCL errors, statuses, exit codes, operations, phrases in two languages;
parts, settings and advice of articles on stalls (``subjects.toml``).

And what to do about a kind of message (``advice.toml``), for messages say only what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from unhang.errors import KnowledgeError
from unhang.knowledge.tables import read_rows, rows_by
from unhang.late_pattern import late_pattern

_ENDING = late_pattern(r"(?<=\w{3})(?:ing|ed|(?<=ss)es|e?(?<!s)s|e)$")
Kind = Literal["nccl-error", "status", "exit", "operation", "word", "subject"]
Judgement = Literal["right", "depends", "costs", "no-effect", "harmful"]
_FILES = ("terms.toml", "subjects.toml")


@dataclass(frozen=True, slots=True)
class Term:
    """One word with its meaning. ``names[0]`` is its title, all of them are what people type."""

    kind: Kind
    names: tuple[str, ...]
    meaning: str
    source: str
    checked: str
    harmless: str = ""
    """When it need not be looked at; empty = never."""
    do: tuple[str, ...] = ()
    look: tuple[str, ...] = ()
    """Commands that show more."""
    judged: tuple[tuple[Judgement, str], ...] = ()
    """Advice that is passed on: what it is worth, and for which version or machine it holds."""
    causes: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    """What is asked for that has no page, and to which this one comes nearest."""
    alone: bool = False
    """A word so broad that it is explained only where nothing else is asked about."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about messages of one kind, and the causes they may belong to."""

    says: str
    do: str
    causes: tuple[str, ...] = ()


def terms() -> tuple[Term, ...]:
    """Terms that ``unhang explain`` knows, each once."""
    return tuple(dict.fromkeys(terms_by_name().values()))


def term(name: str) -> Term | None:
    """The term of this name, whatever its case, blanks and quotes; None when there is none."""
    return terms_by_name().get(normalize_term(name))


def advice(says: str) -> Advice | None:
    """What to do about messages that say this."""
    return rows_by("says", "advice.toml", "advice", Advice).get(says)


def normalize_term(text: str) -> str:
    """``text`` without case, quotes, end marks and repeated blanks; ``exitcode  : -9`` is ``exitcode: -9``."""
    words = " ".join(text.casefold().strip(" \t\r\n\"'`“”‘’.,:;!?。，：；！？、").split())
    return re.sub(r" ?= ?", "=", re.sub(r" ?: ?", ": ", words))


def word_stem(word: str) -> str:
    """``word`` without a common ending: ``hangs`` and ``hanging`` are alike."""
    return _ENDING.sub("", word)


@cache
def terms_by_name() -> Mapping[str, Term]:
    """Each term by each of its names, normalized.

    Raises:
        KnowledgeError: two terms have one name.
    """
    found: dict[str, Term] = {}
    for one in (row for file in _FILES for row in read_rows(file, "term", Term)):
        for name in {normalize_term(name) for name in one.names}:
            if name in found:
                raise KnowledgeError(f"{name!r} appears in both {found[name].names[0]} and {one.names[0]}")
            found[name] = one
    return found
