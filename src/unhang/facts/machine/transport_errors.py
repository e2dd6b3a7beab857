"""What the network said, and whether it speaks for itself or only echoes a process that ended."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unhang.evidence.items import LogEvent
from unhang.facts.logs.event_timing import EventTiming, timing_of
from unhang.facts.logs.log_statements import first_attempt
from unhang.facts.model import Facts
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
