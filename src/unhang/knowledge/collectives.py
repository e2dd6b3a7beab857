"""What names mean in the source of a program: calls in which every rank must take part, and what makes a model's own
calls such (``collectives.toml``); what the names of libraries tell (``source_names.toml``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from unhang.knowledge.tables import read_typed, rows_by


@dataclass(frozen=True, slots=True)
class Collective:
    """One row. ``of``: what must stand before the dot; ``outside``: libraries one of which must define the owner."""

    names: tuple[str, ...]
    source: str
    of: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    needs: str = ""
    word: str = ""
    unless: str = ""
    """With this argument nobody else has to take part, or only members."""
    equal: bool = False
    read: bool = False
    """An attribute, collective where it is read."""
    given: str = ""
    """Only where the program gives this argument somewhere."""


@dataclass(frozen=True, slots=True)
class ModelWrapper:
    """What spreads a model over ranks."""

    names: tuple[str, ...]
    sharded: bool
    source: str


@dataclass(frozen=True, slots=True)
class OwnGroupCall:
    """Names of what lists the ranks of the asking process's own group."""

    names: tuple[str, ...]
    source: str
    of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LongWork:
    """Calls that may take minutes."""

    kind: str
    names: tuple[str, ...]
    source: str
    of: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    """Words, one of which its command must have."""


@dataclass(frozen=True, slots=True)
class OwnDataCall:
    """Calls that give every rank something of its own. ``of``: what stands before the dot."""

    names: tuple[str, ...]
    of: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class SourceNames:
    """Identifiers that mean ``what``, whoever wrote the program."""

    what: str
    names: frozenset[str]


_Row = TypeVar("_Row", Collective, LongWork)


@dataclass(frozen=True, slots=True)
class CollectivesTable:
    """The whole file."""

    checked: object
    collective: tuple[Collective, ...]
    wrapper: tuple[ModelWrapper, ...]
    work: tuple[LongWork, ...] = field(default=())
    own_group: tuple[OwnGroupCall, ...] = field(default=())
    own_data: tuple[OwnDataCall, ...] = field(default=())


@cache
def collectives_table() -> CollectivesTable:
    """The rows, read once."""
    return read_typed("collectives.toml", CollectivesTable)


@cache
def collectives_by_name() -> Mapping[str, Sequence[Collective]]:
    """Rows by the last part of what is called."""
    return _by_name(row for row in collectives_table().collective if not row.read)


@cache
def collective_attributes() -> Mapping[str, Sequence[Collective]]:
    """Rows of what is collective where it is read, by the name of the attribute."""
    return _by_name(row for row in collectives_table().collective if row.read)


@cache
def long_work_by_name() -> Mapping[str, Sequence[LongWork]]:
    """Rows of long work by the last part of what is called."""
    return _by_name(collectives_table().work)


def _by_name(rows: Iterable[_Row]) -> Mapping[str, Sequence[_Row]]:
    found: dict[str, list[_Row]] = {}
    for row in rows:
        for name in row.names:
            found.setdefault(name, []).append(row)
    return found


@cache
def model_wrappers() -> Mapping[str, bool]:
    """Names of what spreads a model over ranks; True where parameters are sharded."""
    return {name: row.sharded for row in collectives_table().wrapper for name in row.names}


def lists_own_group(name: str, owner: str) -> bool:
    """Whether ``owner.name`` lists the ranks of the asking process's own group."""
    return any(name in row.names and (not row.of or owner in row.of) for row in collectives_table().own_group)


def is_own_data(name: str, owner: str) -> bool:
    """Whether ``owner.name()`` gives every rank something of its own."""
    return any(name in row.names and owner in row.of for row in collectives_table().own_data)


@cache
def source_names(what: str) -> frozenset[str]:
    """The identifiers that mean ``what``."""
    return rows_by("what", "source_names.toml", "name", SourceNames)[what].names
