"""The node's name leads to itself only.

What happens: Gloo listens on the address its node's name resolves to. Many systems write ``127.0.1.1 <name>`` into
``/etc/hosts``.

Why it hangs: the other nodes are told to connect to 127.0.1.1, which is themselves. Some ranks are refused and end, the
others wait for them until the limit, 30 minutes by default.

Example: ``127.0.1.1 gpu-1`` in ``/etc/hosts`` of a fresh Debian or Ubuntu.

Fix: ``GLOO_SOCKET_IFNAME``, or the node's real address beside its name in ``/etc/hosts``.

Certain when: never; only groups of Gloo's are concerned.

Possible when: the name resolves to loopback, to nothing, or to no address of this node, and the job has several nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.network.interface_choice import gloo_choice, nccl_choice
from unhang.check.network.network import HostName, Interfaces
from unhang.check.risks.network.nodes_planned import nodes_of, weight_between_nodes
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import say

CHECK = "network"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge what the name resolves to."""
    result, settings = here.result(HostName), here.found(JobEnvironment) or JobEnvironment({})
    gap = could_not(CHECK, say("What the node's name resolves to"), result)
    if gap is not None:
        yield gap
    interfaces = here.found(Interfaces)
    if result.found is None or interfaces is None or settings.value("GLOO_SOCKET_IFNAME"):
        return
    host, choice = result.found, gloo_choice(interfaces, settings, result.found)
    if choice.address is None or not choice.address.loopback:
        return  # told beside Gloo's interface
    severity = weight_between_nodes(here)
    if severity is None:
        yield PassedCheck(CHECK, say("the name {name} resolves to loopback, which is fine on one node", name=host.name))
        return
    real = nccl_choice(interfaces, JobEnvironment({}), None)
    name = real.interfaces[0].name if real.interfaces else "eth0"
    address = real.address.text if real.address is not None else "10.0.0.1"
    resolves = ", ".join(host.addresses) or "-"
    yield risk(
        CHECK,
        host.name,
        Cause.NETWORK_CONFIG,
        say(
            "Gloo would listen on loopback: the node's name {name} resolves to {addresses}",
            name=host.name,
            addresses=resolves,
        ),
        severity=severity,
        because=(say("the other nodes would be told to connect to it, and reach themselves"),)
        if nodes_of(here) is not None
        else (say("it matters on several nodes only; nothing says how many this job has"),),
        remedies=(
            Remedy(
                say("Name Gloo's interface, or correct /etc/hosts"),
                RemedyKind.ENVIRONMENT,
                say(
                    "or in /etc/hosts: {address} {name}, and no 127.0.1.1 beside that name",
                    address=address,
                    name=host.name,
                ),
                say("none"),
                say("getent ahosts {name} shows an address of the network", name=host.name),
                set={"GLOO_SOCKET_IFNAME": name} if severity is Severity.STOPS else {},
            ),
        ),
    )
