"""What names mean in the source of a program: calls in which every rank must take part, and what makes a model's own
calls such (``collectives.toml``); names of ranks, steps, data and layers (``source_names.toml``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from unhang.knowledge.tables import read_rows, read_typed


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
    """With this argument it waits for members only."""
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
    return _by_name(read=False)


@cache
def collective_attributes() -> Mapping[str, Sequence[Collective]]:
    """Rows of what is collective where it is read, by the name of the attribute."""
    return _by_name(read=True)


def _by_name(*, read: bool) -> Mapping[str, Sequence[Collective]]:
    found: dict[str, list[Collective]] = {}
    for row in collectives_table().collective:
        for name in row.names if row.read is read else ():
            found.setdefault(name, []).append(row)
    return found


@cache
def long_work_by_name() -> Mapping[str, Sequence[LongWork]]:
    """Rows of long work by the last part of what is called."""
    found: dict[str, list[LongWork]] = {}
    for row in collectives_table().work:
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
def _source_names() -> Mapping[str, frozenset[str]]:
    return {row.what: row.names for row in read_rows("source_names.toml", "name", SourceNames)}


def source_names(what: str) -> frozenset[str]:
    """The identifiers that mean ``what``."""
    return _source_names()[what]
