"""Nodes that are to talk to each other have networks of different kinds.

What happens: the interfaces NCCL would take have different packet sizes (MTU) or address families, or RoCE entries of
different versions.

Why it hangs: small packets pass and large ones are dropped without a word; or one node offers an IPv6 address to
another that has none. The first contact works, the first large collective does not end.

Example: MTU 9000 on seven nodes and 1500 on the eighth.

Fix: make the nodes alike; leave the odd one out until then.

Certain when: never; a switch may fragment.

Possible when: the nodes differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from unhang.check.environment.versions import Versions
from unhang.check.network.interface_choice import InterfaceChoice, gloo_choice, nccl_choice
from unhang.check.network.network import HostName, Interfaces, RdmaPorts
from unhang.check.risks.network.network_gid import gid_in_force
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import Text, say

CHECK = "network"


def compare(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """Hold what each node would use beside the others'."""
    nodes = {here.node: here for here in situations}
    choices = {node: choice for node, here in nodes.items() if (choice := _choice(here)) is not None}
    if len(nodes) < 2:
        return
    mtus = {node: str(choice.interfaces[0].mtu) for node, choice in choices.items()}
    families = {node: f"IPv{choice.address.family}" for node, choice in choices.items() if choice.address is not None}
    gloo = {node: family for node, here in nodes.items() if (family := _gloo_family(here))}
    gids = {node: kind for node, here in nodes.items() if (kind := _gid_kinds(here))}
    ports = {node: str(count) for node, here in nodes.items() if (count := _active(here)) is not None}
    found = [
        *_differ(mtus, say("the packet size (MTU) of the interface NCCL would take"), "MTU", Certainty.POSSIBLE),
        *_differ(families, say("the family of the address NCCL would offer"), "address family", Certainty.LIKELY),
        *_differ(gloo, say("the family of the address Gloo would offer"), "address family of Gloo", Certainty.LIKELY),
        *_differ(gids, say("the version of RoCE"), "RoCE", Certainty.LIKELY),
        *_differ(ports, say("the number of active RDMA ports"), "RDMA ports", Certainty.POSSIBLE, Severity.SLOWS),
    ]
    yield from found
    if not found and choices:
        yield PassedCheck(CHECK, say("the networks of {count} nodes are alike", count=len(nodes)))


def _choice(here: NodeInspection) -> InterfaceChoice | None:
    interfaces = here.found(Interfaces)
    if interfaces is None:
        return None
    versions = here.found(Versions) or Versions({})
    choice = nccl_choice(interfaces, here.found(JobEnvironment) or JobEnvironment({}), versions.of.get("nccl"))
    return choice if choice.interfaces else None


def _gloo_family(here: NodeInspection) -> str:
    interfaces, host = here.found(Interfaces), here.found(HostName)
    if interfaces is None or host is None:
        return ""
    address = gloo_choice(interfaces, here.found(JobEnvironment) or JobEnvironment({}), host).address
    return f"IPv{address.family}" if address is not None else ""


def _gid_kinds(here: NodeInspection) -> str:
    ports = here.found(RdmaPorts)
    active = [p for p in (ports.all if ports is not None else ()) if p.layer == "Ethernet" and p.state == "ACTIVE"]
    return ", ".join(
        sorted({gid.type for port in active if (gid := gid_in_force(here, port)) is not None and gid.type})
    )


def _active(here: NodeInspection) -> int | None:
    ports = here.found(RdmaPorts)
    return None if ports is None else sum(port.state == "ACTIVE" for port in ports.all)


def _differ(
    values: Mapping[str, str], what: Text, subject: str, certainty: Certainty, severity: Severity = Severity.STOPS
) -> Iterator[Answer]:
    kinds: dict[str, list[str]] = {}
    for node, value in values.items():
        kinds.setdefault(value, []).append(node)
    if len(kinds) < 2:
        return
    usual = max(kinds, key=lambda value: len(kinds[value]))
    odd = [node for value, nodes in kinds.items() if value != usual for node in nodes]
    listed = "; ".join(
        f"{value}: {', '.join(nodes[:4])}{'…' if len(nodes) > 4 else ''}" for value, nodes in kinds.items()
    )
    yield risk(
        CHECK,
        subject,
        Cause.NETWORK_CONFIG,
        say("Nodes differ in {what}: {listed}", what=what, listed=listed),
        severity=severity,
        certainty=certainty,
        nodes=tuple(odd),
        remedies=(
            Remedy(
                say("Make the nodes alike, or leave the odd ones out"),
                RemedyKind.INFRASTRUCTURE,
                say("odd: {nodes}", nodes=", ".join(odd)),
                say("fewer nodes until then"),
                say("ip link; ping -M do -s 8972 between nodes for an MTU of 9000"),
            ),
        ),
    )
