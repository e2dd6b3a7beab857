"""A RoCE port would be used with the wrong address.

What happens: over Ethernet every RDMA connection names an entry of the port's GID table. NCCL looks for RoCE v2 with an
IPv4 address by itself (since 2.21; before, entry 0); ``NCCL_IB_GID_INDEX`` is taken as it is.

Why it hangs: an entry that is empty, link-local or of RoCE v1 does not reach other nodes; connections time out one by
one (status 12).

Example: ``NCCL_IB_GID_INDEX=3`` copied from another cluster, where this node has only entries 0 and 1.

Fix: take ``NCCL_IB_GID_INDEX`` out with NCCL 2.21 or newer; else the index of the IPv4 entry of RoCE v2.

Certain when: never; what the switches route is not seen.

Possible when: the entry that would be used is empty, link-local, or of RoCE v1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unhang.check.environment.versions import Versions
from unhang.check.network.gid_choice import chosen_gid, forced_index, gid_at, is_link_local
from unhang.check.network.network import Gid, RdmaPort, RdmaPorts
from unhang.check.risks.network.network_ports import used_ports
from unhang.check.risks.network.nodes_planned import weight_between_nodes
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Evidence, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import Text, say

CHECK = "network"


@dataclass(frozen=True, slots=True)
class Wrong:
    """``kind``: ``empty``, ``link-local`` or ``v1``; ``index`` is None where there is no entry at all."""

    kind: str
    index: int | None


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the entry each RoCE port would be used with."""
    ports, settings = here.found(RdmaPorts), here.found(JobEnvironment) or JobEnvironment({})
    severity = weight_between_nodes(here)
    if ports is None or severity is None or settings.value("NCCL_IB_DISABLE") == "1":
        return
    fine: list[str] = []
    wrong: dict[Wrong, list[RdmaPort]] = {}
    for port in used_ports(ports.all, settings):
        if port.layer == "Ethernet" and port.state == "ACTIVE":
            gid = gid_in_force(here, port)
            fault = _fault(gid, forced_index(settings))
            if fault is None:
                fine.append(f"{port.name} {gid.index if gid is not None else '?'}")
            else:
                wrong.setdefault(fault, []).append(port)
    for fault, alike in wrong.items():
        yield _found(fault, alike, settings, Severity.NOTE if fault.kind == "v1" else severity)
    if fine:
        yield PassedCheck(CHECK, say("RoCE entries that would be used: {names}", names=", ".join(fine)))


def gid_in_force(here: NodeInspection, port: RdmaPort) -> Gid | None:
    """The entry NCCL would use; before 2.21 it was the first unless the user named one."""
    settings, versions = here.found(JobEnvironment) or JobEnvironment({}), here.found(Versions) or Versions({})
    if forced_index(settings) is None and versions.at_least("nccl", (2, 21)) is False:
        return gid_at(port, 0)
    return chosen_gid(port, settings)


def _fault(gid: Gid | None, forced: int | None) -> Wrong | None:
    if gid is None:
        return Wrong("empty", forced)
    if is_link_local(gid):
        return Wrong("link-local", gid.index)
    return Wrong("v1", gid.index) if gid.type and "v2" not in gid.type else None


def _summary(fault: Wrong, alike: Sequence[RdmaPort]) -> Text:
    parts = {"index": fault.index, "names": ", ".join(port.name for port in alike)}
    if fault.index is None:
        return say("No RoCE address that could be used on {names}", **parts)
    if fault.kind == "empty":
        return say("NCCL_IB_GID_INDEX={index} is an empty entry on {names}", **parts)
    if fault.kind == "link-local":
        return say("Entry {index} would be used on {names}: an address that leads nowhere but its own link", **parts)
    return say("Entry {index} would be used on {names}: RoCE v1, which routers do not forward", **parts)


def _found(fault: Wrong, alike: Sequence[RdmaPort], settings: JobEnvironment, severity: Severity) -> Answer:
    port = alike[0]
    setting = settings.in_force.get("NCCL_IB_GID_INDEX")
    table = "; ".join(f"{gid.index}: {gid.text} {gid.type}".strip() for gid in port.gids) or "-"
    source = Source(f"/sys/class/infiniband/{port.device}/ports/{port.port}/gids")
    return risk(
        CHECK,
        "NCCL_IB_GID_INDEX" if setting is not None else port.name,
        Cause.NETWORK_CONFIG,
        _summary(fault, alike),
        severity=severity,
        evidence=(*((setting.evidence,) if setting is not None else ()), Evidence(source, table)),
        remedies=(
            Remedy(
                say("Let NCCL choose the entry")
                if setting is not None
                else say("Give the port an IPv4 address, or name the right entry"),
                RemedyKind.ENVIRONMENT,
                say("NCCL 2.21 and newer find it; for older ones the index show_gids lists as v2 with an IPv4 address"),
                say("none"),
                say("ib_write_bw -x INDEX between two nodes; or unhang check --only probe"),
                unset=("NCCL_IB_GID_INDEX",) if setting is not None else (),
            ),
        ),
    )
