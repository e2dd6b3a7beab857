"""Ports as ibstatus shows them, and first collectives that never finish over an external network plugin."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.logs.log_statements import field_text, quote_event
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts
from unhang.findings import Evidence
from unhang.knowledge.thresholds import whole_threshold

# A job whose last position is below this has not run a step worth the name.
FIRST_POSITIONS = whole_threshold("fabric.first_positions")
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
    if plugin is None or not _several_nodes(facts):
        return None
    if all(w.barrier for w in logged.waits) or _somebody_is_absent(facts, logged.ranks):
        return None
    network = str(plugin.values.get("provider") or plugin.values.get("network"))
    return FirstUseStall(network, logged.ranks, (quote_event(plugin), *(w.evidence for w in logged.waits[:2])))


def _is_external(values: object) -> bool:
    text = str(values).lower()
    return "provider" in text or any(word in text for word in _EXTERNAL)


def _several_nodes(facts: Facts) -> bool:
    return len({e.host for e in facts.events_of("n.net", "n.init_start", "n.boot", "n.init_complete") if e.host}) > 1


def _somebody_is_absent(facts: Facts, reported: tuple[int, ...]) -> bool:
    """Exactly one rank says nothing while all others wait: it is that rank, not the network."""
    if facts.world_size is None:
        return False
    return facts.world_size - len(reported) == 1 and facts.world_size > 2
