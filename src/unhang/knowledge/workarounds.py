"""Settings that get around a broken transport (``workarounds.toml``), the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from unhang.knowledge.tables import rows_of

_FIELDS = ("id", "backend", "where", "set", "switches_off", "reason", "repair", "cause", "source", "checked")


@dataclass(frozen=True, slots=True)
class Workaround:
    """One such setting. ``cause`` is the id of the stall that needs it; ``repair`` is what would end the need."""

    id: str
    backend: str
    where: str
    set: Mapping[str, str]
    switches_off: str
    reason: str
    repair: str
    cause: str

    def __hash__(self) -> int:  # ``set`` is a dict; one id with one value is one setting
        return hash((self.id, *self.set.values()))


def workarounds() -> tuple[Workaround, ...]:
    """All rows, in order of what they cost."""
    names = ("id", "backend", "where", "set", "switches_off", "reason", "repair", "cause")
    return tuple(
        Workaround(**{name: row[name] for name in names}) for row in rows_of("workarounds.toml", "workaround", _FIELDS)
    )


def to_try(backend: str, *, several_nodes: bool, interfaces: Sequence[str]) -> Iterator[Workaround]:
    """Those that can matter here, one for each interface where a row has a place for it."""
    wheres = {"any", "network"} if several_nodes else {"any", "node"}
    if several_nodes and backend == "nccl":
        wheres.add("node")  # nodes of a job have several cards each, most of the time
    for row in workarounds():
        if row.backend != backend or row.where not in wheres:
            continue
        if any("{interface}" in value for value in row.set.values()):
            for name in interfaces:
                yield replace(row, set={key: value.format(interface=name) for key, value in row.set.items()})
        else:
            yield row
