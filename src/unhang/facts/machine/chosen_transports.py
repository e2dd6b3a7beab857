"""The ways NCCL really chose between cards and between nodes, from its own lines of the start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from unhang.evidence.items import LogEvent
from unhang.facts.logs.log_statements import quote_events
from unhang.facts.model import Facts
from unhang.findings import Evidence

FAMILIES = ("P2P", "SHM", "NET")


@dataclass(frozen=True, slots=True)
class ChosenTransports:
    """``ways``: family (``P2P``, ``SHM``, ``NET/IB``, ``NET/Socket``) of the channels, the most used first.

    ``network``: its own name for it, empty where it said none. ``all_told``: lines of every rank were read.
    """

    ways: tuple[str, ...]
    network: str
    multicast: bool
    all_told: bool
    evidence: tuple[Evidence, ...]

    def uses(self, family: str) -> bool:
        """Whether any channel goes that way."""
        return any(way.split("/")[0] == family for way in self.ways)


def chosen_transports(facts: Facts) -> ChosenTransports | None:
    """None where no line of a channel was read; asked once."""
    return facts.cached(_chosen_transports)


def _chosen_transports(facts: Facts) -> ChosenTransports | None:
    channels = facts.events_of("n.channel")
    if not channels:
        return None
    counted = Counter(_family(event) for event in channels)
    networks = [str(event.values.get("network", "")).strip() for event in facts.events_of("n.net")]
    told = {event.rank for event in channels if event.rank is not None}
    first: dict[str, LogEvent] = {}
    for event in channels:
        first.setdefault(_family(event), event)
    return ChosenTransports(
        tuple(way for way, _ in counted.most_common() if way),
        networks[-1][:60] if networks else "",
        bool(facts.events_of("n.nvls_on")),
        facts.world_size is not None and told >= set(range(facts.world_size)),
        quote_events(first.values()),
    )


def _family(event: LogEvent) -> str:
    words = str(event.values.get("path", "")).split("/")
    if words[0] not in FAMILIES:
        return ""
    return "/".join(words[:2]) if words[0] == "NET" and len(words) > 1 else words[0]
