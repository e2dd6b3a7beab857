"""The ranks cannot meet.

What happens: all ranks connect to one address and port before anything else.

Why it hangs: a name that does not resolve, a port that another program holds, an address that leads to every node
itself, or a firewall that says nothing: the ranks try again and again until the limit of the start.

Example: port 29500 still held by yesterday's job; ``MASTER_ADDR=localhost`` on two nodes; a cloud's security group
without the port.

Fix: the first node's address in the training network and a free port; open it between the nodes.

Certain when: never; the job may be started from elsewhere.

Possible when: the address does not resolve, does not answer, or its port is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.network.network import RendezvousEndpoint, is_loopback
from unhang.check.risks.network.nodes_planned import nodes_of
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text, say

CHECK = "network"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge where the ranks are to meet."""
    result = here.result(RendezvousEndpoint)
    gap = could_not(CHECK, say("Where the ranks meet"), result)
    if gap is not None:
        yield gap
    if result.found is None:
        return
    yield from _judged(result.found, several=(nodes_of(here) or 1) > 1)


def _judged(endpoint: RendezvousEndpoint, *, several: bool) -> Iterator[Answer]:
    where = {"address": endpoint.address, "port": endpoint.port}
    fine = {
        "refused": say("{address} answers; nothing listens on port {port} yet", **where),
        "open": say("{address}:{port} can be reached", **where),
        "free": say("port {port} of this node is free", **where),
    }
    if not endpoint.addresses:
        yield _found(endpoint, say("{address} does not resolve on this node", address=endpoint.address), _name())
    elif several and (endpoint.address == "localhost" or is_loopback(endpoint.address)):
        summary = say("On several nodes the ranks cannot meet at {address}: each node finds itself there", **where)
        yield _found(endpoint, summary, _first_node())
    elif endpoint.answer == "taken":
        yield _found(endpoint, say("Port {port} of this node is taken already", **where), _other_port(endpoint))
    elif endpoint.answer == "silent":
        yield _found(
            endpoint,
            say("{address}:{port} does not answer: the node is down, or packets are dropped on the way", **where),
            _open(),
        )
    elif endpoint.answer in fine:
        yield PassedCheck(CHECK, fine[endpoint.answer])
    elif endpoint.answer:
        summary = say("{address}:{port} cannot be reached: {reason}", **where, reason=endpoint.answer)
        yield _found(endpoint, summary, _open())


def _found(endpoint: RendezvousEndpoint, summary: Text, remedy: Remedy) -> Answer:
    return risk(
        CHECK,
        f"{endpoint.address}:{endpoint.port}",
        Cause.RENDEZVOUS,
        summary,
        severity=Severity.STOPS,
        evidence=(endpoint.evidence,) if endpoint.evidence is not None else (),
        remedies=(remedy,),
    )


def _name() -> Remedy:
    return Remedy(
        say("Give an address instead of the name, or add it to /etc/hosts"),
        RemedyKind.CONFIG,
        say("on the first node: hostname -I"),
        say("none"),
        say("getent ahosts answers on every node"),
    )


def _first_node() -> Remedy:
    return Remedy(
        say("Give the first node's address in the network of the job"),
        RemedyKind.CONFIG,
        say("--master_addr, or --rdzv_endpoint ADDRESS:PORT, the same on every node"),
        say("none"),
        say("unhang check on another node says that it can be reached"),
    )


def _other_port(endpoint: RendezvousEndpoint) -> Remedy:
    return Remedy(
        say("Take another port, or end the program that holds it"),
        RemedyKind.CONFIG,
        say("--master_port {port}; on one node --standalone takes any free one", port=endpoint.port + 1),
        say("none"),
        say("ss -ltnp shows who listens"),
    )


def _open() -> Remedy:
    return Remedy(
        say("Open the port, and the range of ports for connections, between the nodes"),
        RemedyKind.INFRASTRUCTURE,
        say("the firewall of the first node; in a cloud, a security group that allows all traffic from itself"),
        say("whoever is in that network reaches the ports too"),
        say("nc -zv from another node answers, if only with 'refused'"),
    )
