"""What the network said, and whether it speaks for itself or only echoes a process that ended; ports and first use."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unhang.evidence.items import LogEvent
from unhang.facts.logs.event_timing import EventTiming, timing_of
from unhang.facts.logs.log_statements import field_text, first_attempt, quote_event
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts
from unhang.findings import Evidence
from unhang.knowledge.thresholds import threshold, whole_threshold

_KINDS = (
    *("n.ibwc", "n.ibasync", "n.ibcall", "n.ibresil", "n.ofi", "n.conn", "n.sockerr", "n.poll", "n.timeout_rx"),
    *("tp.retry", "n.ras_stuck", "k.mlx5", "n.magic"),
)
_PARTNER_ENDED = re.compile(r"reset by peer|Broken pipe|closed by (?:remote )?peer|[Cc]onnection closed")
_MEMORY = re.compile(r"reg_mr|Cannot allocate memory|ENOMEM")
# Completion codes of the verbs library that speak of memory, not of the way: protection, access, bad request.
MEMORY_STATUS = {4, 9, 10}
FLUSHED = 5
RETRY_EXCEEDED = 12
FEW = threshold("transport_errors.few")
MIN_SPEAKERS = whole_threshold("transport_errors.min_speakers")
MANY_RANKS = whole_threshold("transport_errors.many_ranks")


@dataclass(frozen=True, slots=True)
class TransportErrors:
    """Lines of the network that speak of the way."""

    events: tuple[LogEvent, ...]
    stage: EventTiming
    one_peer: str | None
    """All lines of several ranks name this one address: it is that side, not the way there."""
    few_of_many: bool
    """Only a few of many ranks report it, and others were read that do not: the network as a whole is set up right."""
    connecting: bool
    """Only connections that were being made failed: nothing had worked over them, however long the job had run."""
    partner_ended: bool
    """The lines only say that a partner ended."""


def transport_errors(facts: Facts) -> TransportErrors | None:
    """What remains of the network's complaints; None when it did not complain."""
    events = [e for e in first_attempt(facts.events_of(*_KINDS)) if _is_transport_error(e)]
    if not events:
        return None
    world = facts.world_size or 0
    speakers = {e.rank for e in events if e.rank is not None}
    return TransportErrors(
        events=tuple(events),
        stage=timing_of(facts, events[0]),
        one_peer=_one_peer(events),
        few_of_many=world >= MANY_RANKS and 0 < len(speakers) <= world * FEW and bool(set(facts.ranks_seen) - speakers),
        connecting=all(e.kind == "n.ibcall" and e.values.get("call") == "ibv_modify_qp" for e in events),
        partner_ended=all(_PARTNER_ENDED.search(e.text) for e in events),
    )


def _is_transport_error(event: LogEvent) -> bool:
    if event.kind == "n.ibwc":
        return event.values.get("status") not in (*MEMORY_STATUS, FLUSHED)
    if event.kind == "n.ibcall":
        return _MEMORY.search(event.text) is None
    if event.kind == "k.mlx5":
        return "down" in event.text
    if event.kind == "n.sockerr":
        return "Too many open files" not in event.text
    return True


def _one_peer(events: list[LogEvent]) -> str | None:
    named = [(e.rank, str(e.values["peer"]).split("<")[0]) for e in events if e.values.get("peer")]
    peers = {peer for _, peer in named}
    speakers = {rank for rank, _ in named}
    return peers.pop() if len(peers) == 1 and len(speakers) >= MIN_SPEAKERS else None


# A job whose last position is below this has not run a step worth the name.
FIRST_POSITIONS = whole_threshold("transport_errors.first_positions")
_EXTERNAL = ("libfabric", "ofi", "ucx", "sharp", "fastrak", "gib")


@dataclass(frozen=True, slots=True)
class PortDown:
    """A port that carries nothing."""

    name: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class FirstUseStall:
    """``ranks`` wait in their first collectives over ``network``."""

    network: str
    ranks: tuple[int, ...]
    evidence: tuple[Evidence, ...]


def ports_down(facts: Facts) -> tuple[PortDown, ...]:
    """Ports whose state is not active, in the order in which ibstatus lists them."""
    found: dict[str, PortDown] = {}
    for log in facts.logs:
        name = ""
        for event in log.events:
            if event.kind == "look.ibdev":
                name = f"{field_text(event, 'hca')}:{field_text(event, 'port')}"
            elif event.kind == "look.ibstate" and name and str(event.values["state"]) in ("DOWN", "Down", "Disabled"):
                found.setdefault(name, PortDown(name, quote_event(event)))
    return tuple(found.values())


def first_use_stall(facts: Facts) -> FirstUseStall | None:
    """All that reported wait in their first collectives, on several nodes, over a plugin, and no rank is absent."""
    logged = logged_waits(facts)
    if logged is None or len(logged.ranks) < 2:
        return None
    positions = [p for p in logged.positions if p is not None]
    if not positions or max(positions) > FIRST_POSITIONS or any(w.operation == "" for w in logged.waits):
        return None
    chosen = [e for e in facts.events_of("n.net", "n.provider") if _is_external(e.values)]
    plugin = next((e for e in chosen), None)
    nodes = {e.host for e in facts.events_of("n.net", "n.init_start", "n.boot", "n.init_complete") if e.host}
    if plugin is None or len(nodes) < 2:
        return None
    if all(w.barrier for w in logged.waits) or _somebody_is_absent(facts, logged.ranks):
        return None
    network = str(plugin.values.get("provider") or plugin.values.get("network"))
    return FirstUseStall(network, logged.ranks, (quote_event(plugin), *(w.evidence for w in logged.waits[:2])))


def _is_external(values: object) -> bool:
    text = str(values).lower()
    return "provider" in text or any(word in text for word in _EXTERNAL)


def _somebody_is_absent(facts: Facts, reported: tuple[int, ...]) -> bool:
    """Exactly one rank says nothing while all others wait: it is that rank, not the network."""
    if facts.world_size is None:
        return False
    return facts.world_size - len(reported) == 1 and facts.world_size > 2
