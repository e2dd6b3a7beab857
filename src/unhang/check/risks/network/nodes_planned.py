"""How much a fault of the network between nodes weighs in the planned job."""

from __future__ import annotations

from unhang.check.network.network import PlannedNodes
from unhang.findings import Severity
from unhang.host.look import Situation


def nodes_of(here: Situation) -> int | None:
    """On how many nodes the job would run; None when nothing says."""
    planned = here.found(PlannedNodes)
    return None if planned is None else planned.count


def weight_between_nodes(here: Situation, severity: Severity = Severity.STOPS) -> Severity | None:
    """``severity`` on several nodes, a note where their number is not known, None on one."""
    nodes = nodes_of(here)
    if nodes is None:
        return Severity.NOTE
    return severity if nodes > 1 else None
