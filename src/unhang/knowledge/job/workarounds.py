"""Settings that get around a broken transport (``workarounds.toml``), the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from unhang.knowledge.tables import read_rows

NETWORK_PLACEHOLDER = "@"


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
    network: str = ""
    """Where the setting names an interface: the one in this network, however a node calls it."""

    @property
    def sent(self) -> dict[str, str]:
        """``set`` for nodes that may name their interfaces otherwise: ``@10.1.0.0/16`` stands for the name."""
        if not self.network:
            return dict(self.set)
        row = next(row for row in workarounds() if row.id == self.id)
        return {name: value.format(interface=NETWORK_PLACEHOLDER + self.network) for name, value in row.set.items()}

    def __hash__(self) -> int:  # ``set`` is a dict; one id with one value is one setting
        return hash((self.id, *self.set.items()))


def workarounds() -> tuple[Workaround, ...]:
    """All rows, in order of what they cost."""
    return read_rows("workarounds.toml", "workaround", Workaround)


def cause_worked_around(name: str, value: str) -> str:
    """The cause that ``NAME=value`` gets around; empty where no row sets it so."""
    return next((row.cause for row in workarounds() if row.set.get(name) == value), "")


def workarounds_to_unset(backend: str, environment: Mapping[str, str]) -> tuple[Workaround, ...]:
    """Variables of these rows that ``environment`` sets, each as a workaround that unsets it (value ``""``)."""
    row = next(row for row in workarounds() if row.id == "unset")
    of_backend = (setting for setting in workarounds() if setting.backend == backend)
    names = dict.fromkeys(name for setting in of_backend for name in setting.set)
    causes = {name: setting.cause for setting in workarounds() for name in setting.set}
    between = {name for setting in workarounds() if setting.where == "network" for name in setting.set}
    return tuple(
        replace(row, set={name: ""}, cause=causes[name], where="network" if name in between else row.where)
        for name in names
        if name in environment
    )


def applicable_workarounds(backend: str, *, several_nodes: bool, interfaces: Mapping[str, str]) -> Iterator[Workaround]:
    """Those that can matter here; ``interfaces`` (name by network) in turn where a row has a place for one."""
    wheres = {"any", "network"} if several_nodes else {"any", "node"}
    if several_nodes and backend == "nccl":
        wheres.add("node")  # nodes of a job have several cards each, most of the time
    for row in workarounds():
        if row.backend != backend or row.where not in wheres:
            continue
        if any("{interface}" in value for value in row.set.values()):
            for network, name in interfaces.items():
                own = {key: value.format(interface=name) for key, value in row.set.items()}
                yield replace(row, set=own, network=network)
        else:
            yield row
