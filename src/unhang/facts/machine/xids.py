"""Xids: those of the machines' samples beside those of logs, and which ranks use the card that each is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from unhang.evidence.items import LogEvent
from unhang.facts.logs.log_statements import first_attempt
from unhang.facts.model import Facts, once
from unhang.findings import Source
from unhang.knowledge.hardware import XidRow, xid_row
from unhang.knowledge.thresholds import threshold

if TYPE_CHECKING:
    from unhang.wire.documents.machine_series import MachineRow, MachineSeries, ReportedXid

KIND, OFF_THE_BUS = "k.xid", "k.busoff"
SAME_S = threshold("xids.same_s")
"""A log and a sample that tell of one code of one card within so long tell of one event."""


@dataclass(slots=True)
class _Node:
    """What its samples tell of cards, over all of them: one that fell off the bus is not in the last."""

    uuids: dict[str, str] = field(default_factory=dict)
    """By bus."""
    indices: dict[str, int] = field(default_factory=dict)
    """By UUID."""
    ranks: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """UUIDs of the cards each rank was last seen on; empty where unknown."""

    def users(self, bus: str) -> tuple[int, ...] | None:
        """Ranks on the card there; none at all only where every rank is known to be elsewhere; None: not known."""
        uuid = self.uuids.get(bus)
        found = tuple(rank for rank, cards in sorted(self.ranks.items()) if uuid in cards)
        if found:
            return found
        return () if uuid is not None and self.ranks and all(self.ranks.values()) else None

    @property
    def has_more_cards(self) -> bool:
        """Than ranks of ours: another job may run here."""
        return len(self.indices) > len(self.ranks)


def add_sampled_xids(events: Sequence[LogEvent], machines: Iterable[MachineSeries]) -> tuple[LogEvent, ...]:
    """``events`` and the Xids that only samples tell of; each with its node and its rank, where one rank is on it."""
    series = tuple(machines)
    if not series:
        return tuple(events)
    nodes = _nodes(series)
    told = [_with_rank_and_node(event, nodes) if event.kind == KIND else event for event in events]
    logged = [event for event in told if event.kind == KIND]
    for one, row, seen in _first_and_last(series):
        if not any(_is_same(event, row, seen) for event in logged):
            told.append(_with_rank_and_node(_event(one.source, row, seen, nodes[row.node]), nodes))
    return tuple(told)


def _first_and_last(series: Iterable[MachineSeries]) -> list[tuple[MachineSeries, MachineRow, ReportedXid]]:
    """Of each code of each card: a sick one repeats itself for hours."""
    found: dict[tuple[str, str, int], list[tuple[MachineSeries, MachineRow, ReportedXid]]] = {}
    every = ((one, row, seen) for one in series for row in one.rows for seen in row.xids)
    for told in sorted(every, key=lambda told: told[1].t_s):
        _, row, seen = told
        found.setdefault((row.node, _bus(seen.bus), seen.code), []).append(told)
    return [told for same in found.values() for told in (same[0], *same[1:][-1:])]


def ranks_on_card(facts: Facts, event: LogEvent) -> tuple[int, ...] | None:
    """Ranks on the card of this Xid; (): another job's card; None: unknown."""
    nodes = _nodes_of(facts)
    name = _node_of(event, nodes)
    return nodes[name].users(_bus(str(event.values.get("bus", "")))) if name is not None else None


def is_of_another_job(facts: Facts, event: LogEvent) -> bool:
    """No rank uses the card it is about; or a program failed there, and it is none of this job's."""
    if event.kind in (KIND, OFF_THE_BUS) and ranks_on_card(facts, event) == ():
        return True
    row = row_of_xid(event)
    return row is not None and row.kind == "program" and names_stranger(facts, event)


def names_stranger(facts: Facts, event: LogEvent) -> bool:
    """The process it names is none of this job's, whose every rank's is known by the numbers the kernel uses."""
    pid, known = event.values.get("pid"), _pids_of(facts)
    return event.kind == KIND and pid is not None and bool(known) and pid not in known


@once
def _pids_of(facts: Facts) -> frozenset[int]:
    """Of all processes of the job, over all its attempts; empty where those of a rank are not known."""
    samples = [row for one in facts.machines for row in one.rows]
    if facts.world_size is None or any(row.own_pids for row in samples):
        return frozenset()
    found: set[tuple[int | None, int | None]] = {(known.rank, known.pid) for known in facts.ranks.values()}
    found |= {(exit_.rank, exit_.pid) for exit_ in facts.exits}
    found |= {(raised.rank, raised.pid) for raised in facts.tracebacks}
    found |= {(use.rank, use.pid or None) for row in samples for use in row.ranks}
    found |= {(None, child.pid) for known in facts.ranks.values() for child in known.worker_stacks}
    ranks = {rank for rank, pid in found if pid is not None}
    return frozenset(pid for _, pid in found if pid is not None) if ranks.issuperset(facts.ranks) else frozenset()


def may_be_of_another_job(facts: Facts, event: LogEvent) -> bool:
    """It names another job's process; or nobody can tell who uses the card, and there are more cards than ranks."""
    if names_stranger(facts, event):
        return True
    nodes = _nodes_of(facts)
    name = _node_of(event, nodes)
    unknown = name is not None and nodes[name].has_more_cards and ranks_on_card(facts, event) is None
    return event.kind in (KIND, OFF_THE_BUS) and unknown


@once
def _nodes_of(facts: Facts) -> dict[str, _Node]:
    return _nodes(facts.machines)


def _nodes(machines: Iterable[MachineSeries]) -> dict[str, _Node]:
    nodes: dict[str, _Node] = {}
    for row in sorted((row for one in machines for row in one.rows), key=lambda row: row.t_s):
        node = nodes.setdefault(row.node, _Node())
        for card in row.cards:
            node.uuids[_bus(card.bus)] = card.uuid
            node.indices[card.uuid] = card.index
        for use in row.ranks:
            node.ranks[use.rank] = use.cards or node.ranks.get(use.rank, ())
    return nodes


def _event(source: Source, row: MachineRow, seen: ReportedXid, node: _Node) -> LogEvent:
    uuid = node.uuids.get(_bus(seen.bus))
    card = f", card {node.indices[uuid]} ({uuid})" if uuid is not None else ""
    text = f"NVRM: Xid (PCI:{seen.bus}): {seen.code}{card}"
    values = {"bus": seen.bus, "xid": seen.code, **({"pid": seen.pid} if seen.pid is not None else {})}
    return LogEvent(KIND, replace(source, line=row.line), text, None, row.t_s, values, host=row.node)


def _with_rank_and_node(event: LogEvent, nodes: dict[str, _Node]) -> LogEvent:
    name = _node_of(event, nodes)
    if name is None or event.rank is not None:
        return event
    users = nodes[name].users(_bus(str(event.values.get("bus", ""))))
    return replace(event, host=event.host or name, rank=users[0] if users is not None and len(users) == 1 else None)


def _node_of(event: LogEvent, nodes: dict[str, _Node]) -> str | None:
    if event.host is None:
        return next(iter(nodes)) if len(nodes) == 1 else None
    return next((name for name in nodes if name.partition(".")[0] == event.host.partition(".")[0]), None)


def _is_same(event: LogEvent, row: MachineRow, seen: ReportedXid) -> bool:
    if event.values.get("xid") != seen.code or _bus(str(event.values.get("bus", ""))) != _bus(seen.bus):
        return False
    if event.host is not None and event.host.partition(".")[0] != row.node.partition(".")[0]:
        return False
    return event.time_s is None or abs(event.time_s - row.t_s) <= SAME_S + row.for_s


def _bus(bus: str) -> str:
    """``0000:18:00`` of ``0000:18:00.0``: the kernel leaves the function out."""
    return bus.lower().partition(".")[0]


def row_of_xid(event: LogEvent) -> XidRow | None:
    """What is known of its code."""
    code = event.values.get("xid")
    return xid_row(code) if event.kind == KIND and isinstance(code, int) else None


def program_xids(facts: Facts) -> tuple[LogEvent, ...]:
    """Driver events that a kernel of the program causes, when the driver reports no fault of the card."""
    events = first_attempt(e for e in facts.events_of(KIND) if not is_of_another_job(facts, e))
    kinds = [row.kind if (row := row_of_xid(event)) is not None else "" for event in events]
    if {"gpu", "link"} & set(kinds):
        return ()
    return tuple(event for event, kind in zip(events, kinds, strict=True) if kind == "program")
