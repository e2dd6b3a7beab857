"""A bridge of containers or virtual machines would be used between nodes.

What happens: NCCL leaves out names that begin with docker, lo or virbr, and nothing else. Its first contact goes over
the first interface that is left; its socket transport uses all of them.

Why it hangs: ``br-1a2b``, ``cni0`` or ``flannel.1`` has the same address on every node, or one the others cannot reach;
they connect to it until the limit.

Example: Docker Compose made ``br-3f2a`` (172.18.0.1) on every node; NCCL prints it in ``NET/Socket : Using``.

Fix: ``NCCL_SOCKET_IFNAME=<the interface that leads to the other nodes>``.

Certain when: never; where RDMA works the socket transport is not used.

Possible when: an interface among those NCCL would take is called like one of these and carries no default route.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.versions import Versions
from unhang.check.network.interface_choice import nccl_choice
from unhang.check.network.network import Interfaces, RdmaPorts
from unhang.check.risks.network.nodes_planned import weight_between_nodes
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.hardware.node_local_interfaces import node_local_interface
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import say

CHECK = "network"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for every such interface NCCL would take."""
    interfaces, settings = here.found(Interfaces), here.found(JobEnvironment) or JobEnvironment({})
    severity = weight_between_nodes(here)
    if interfaces is None or severity is None:
        return
    versions = here.found(Versions) or Versions({})
    taken = nccl_choice(interfaces, settings, versions.of.get("nccl")).interfaces
    for number, one in enumerate(taken[:1] if _rdma(here, settings) else taken):
        what = "" if one.default_route else node_local_interface(one.name)
        if not what:
            continue
        better = [other.name for other in taken if not node_local_interface(other.name)]
        name = better[0] if better else "eth0"
        yield risk(
            CHECK,
            one.name,
            Cause.NETWORK_CONFIG,
            say(
                "NCCL would also connect over {interface} ({address}), {what}: other nodes do not get there",
                interface=one.name,
                address=one.addresses[0].text if one.addresses else "?",
                what=what,
            ),
            severity=severity,
            certainty=Certainty.LIKELY if number == 0 else Certainty.POSSIBLE,
            remedies=(
                Remedy(
                    say("Name the interface that leads to the other nodes"),
                    RemedyKind.ENVIRONMENT,
                    say("or leave this one out: NCCL_SOCKET_IFNAME=^docker,lo,{interface}", interface=one.name),
                    say("none"),
                    say("NCCL_DEBUG=INFO prints the interfaces it uses in the line 'NET/Socket : Using'"),
                    set={"NCCL_SOCKET_IFNAME": name} if severity is Severity.STOPS else {},
                ),
            ),
        )


def _rdma(here: NodeInspection, settings: JobEnvironment) -> bool:
    """Whether NCCL has RDMA ports to use, so that sockets serve for the first contact only."""
    ports = here.found(RdmaPorts)
    active = ports is not None and any(port.state == "ACTIVE" for port in ports.all)
    return active and settings.value("NCCL_IB_DISABLE") in (None, "0")
