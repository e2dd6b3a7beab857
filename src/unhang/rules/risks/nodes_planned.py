"""On how many nodes the job would run, and how much a fault of the network between nodes weighs there."""

from __future__ import annotations

from unhang.facts.preflight.launch import Launch
from unhang.facts.preflight.network import planned_nodes
from unhang.facts.preflight.settings import Settings
from unhang.facts.preflight.situation import Situation
from unhang.findings import Severity


def nodes_of(here: Situation) -> int | None:
    """As far as the command and the environment say; None when they do not."""
    settings = here.found(Settings)
    values = {name: one.value for name, one in settings.in_force.items()} if settings is not None else {}
    return planned_nodes(here.found(Launch) or Launch(), values)


def weight_between_nodes(here: Situation, severity: Severity = Severity.STOPS) -> Severity | None:
    """``severity`` on several nodes, a note where their number is not known, None on one."""
    nodes = nodes_of(here)
    if nodes is None:
        return Severity.NOTE
    return severity if nodes > 1 else None
