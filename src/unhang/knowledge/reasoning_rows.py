"""What is to be thought of causes, grades and features, as rows: ``knowledge/reasoning/*.toml``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal, TypeVar

import msgspec

from unhang.errors import KnowledgeError
from unhang.findings import Cause, Certainty, Grade, Phase
from unhang.knowledge.tables import read_typed
from unhang.knowledge.words import Phrase

Trait = Literal[
    "takes-a-process",  # it ends or freezes one: it leads over what that did to others
    "kills",  # a process dies of it: a crash that rests on the same lines is what it led to
    "no-reason",  # how a process left, or nothing: no error names it as what it was raised for
    "crash",  # the status is a crash where nobody waits
    "of-one-rank",  # it lies with one rank, or a few
    "of-some-ranks",  # with a few, where a line names them
    "of-a-speaker",  # with whoever speaks of it
    "of-the-absent",  # with whoever did not come
    "other-way",  # ranks took different ways through the program
    "at-start",  # it explains nothing that stands after steps, or before the start was done
    "work",  # the laggard gets on by itself
    "slows-first",  # it makes steps longer before it stops them, as work does
    "takes-long",  # a slow machine may be a part of it, as of work
    "seen-by-system",  # an exception, an exit, a process state: whatever the communication library is
    "stays-with-host",  # the next job there has it too
    "may-be-host",  # the host may be behind it
    "below-program",  # a call hangs by it that every rank has joined
    "needs-change",  # it would stall again in the same place
    "needs-a-death",  # excluded where all that could be waited for were there when the first limit passed
    "needs-progress",  # excluded, as those, where somebody ended the job in its first call
]
_Name = TypeVar("_Name")
_Row = TypeVar("_Row")
When = Literal["same-ranks", "complaint", "same-group", "among-its-ranks"]


class CauseRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cause. ``settles``: what would be seen that confirms or refutes it; ``how``: what shows that."""

    traits: frozenset[Trait] = frozenset()
    explains: Mapping[When, frozenset[Cause]] = {}
    settles: Phrase = ""
    how: str = ""


class GradeRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How certain a signal of this grade makes a finding: where it is whole, and where it is not."""

    rests_on: str
    whole: Certainty
    not_whole: Certainty


class FeatureRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``programs``: names of programs, ways and cards. ``work``: expressions by the work that they tell of;
    ``phases``: those of a last line, by the part of the job; ``pages``: the term that explains a feature. ``said``: a
    feature in words, by its name or, with a colon at the end, by how its name begins."""

    programs: tuple[str, ...]
    work: Mapping[str, str]
    phases: Mapping[Phase, str]
    pages: Mapping[str, str]
    said: Mapping[str, Phrase]


@cache
def cause_rows() -> Mapping[Cause, CauseRow]:
    """Every cause, in the order of precedence.

    Raises:
        KnowledgeError: one is missing, or a row holds what is not known.
    """
    path = "reasoning/causes.toml"
    return _complete(path, read_typed(path, dict[Cause, CauseRow]), Cause)


@cache
def grade_rows() -> Mapping[Grade, GradeRow]:
    """Every grade, from strong to weak.

    Raises:
        KnowledgeError: as of :func:`cause_rows`.
    """
    path = "reasoning/grades.toml"
    return _complete(path, read_typed(path, dict[Grade, GradeRow]), Grade)


@cache
def feature_rows() -> FeatureRows:
    """What features are made of, and how they are said."""
    return read_typed("reasoning/features.toml", FeatureRows)


@cache
def causes_that(*traits: Trait) -> frozenset[Cause]:
    """Causes with any of ``traits``."""
    return frozenset(cause for cause, row in cause_rows().items() if not row.traits.isdisjoint(traits))


@cache
def precedence(cause: Cause) -> int:
    """Its place in the order of precedence."""
    return list(cause_rows()).index(cause)


@cache
def strength(grade: Grade) -> int:
    """Its place in the order of grades; the strongest has the highest."""
    return len(Grade) - list(grade_rows()).index(grade)


def _complete(path: str, rows: Mapping[_Name, _Row], names: Iterable[_Name]) -> Mapping[_Name, _Row]:
    lacking = [str(name) for name in names if name not in rows]
    if lacking:
        raise KnowledgeError(f"{path} lacks {', '.join(lacking)}")
    return rows
