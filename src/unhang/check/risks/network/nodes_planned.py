"""How much a fault of the network between nodes weighs in the planned job."""

from __future__ import annotations

from unhang.check.network.network import PlannedNodes
from unhang.findings import Severity
from unhang.host.inspection_result import NodeInspection


def nodes_of(here: NodeInspection) -> int | None:
    """On how many nodes the job would run; None when nothing says."""
    planned = here.found(PlannedNodes)
    return None if planned is None else planned.count


def weight_between_nodes(here: NodeInspection, severity: Severity = Severity.STOPS) -> Severity | None:
    """``severity`` on several nodes, a note where their number is not known, None on one."""
    nodes = nodes_of(here)
    if nodes is None:
        return Severity.NOTE
    return severity if nodes > 1 else None
