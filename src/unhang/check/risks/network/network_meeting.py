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
    look = here.look(RendezvousEndpoint)
    gap = could_not(CHECK, say("Where the ranks meet"), look)
    if gap is not None:
        yield gap
    if look.found is None:
        return
    yield from _judged(look.found, several=(nodes_of(here) or 1) > 1)


def _judged(meeting: RendezvousEndpoint, *, several: bool) -> Iterator[Answer]:
    where = {"address": meeting.address, "port": meeting.port}
    fine = {
        "refused": say("{address} answers; nothing listens on port {port} yet", **where),
        "open": say("{address}:{port} can be reached", **where),
        "free": say("port {port} of this node is free", **where),
    }
    if not meeting.addresses:
        yield _found(meeting, say("{address} does not resolve on this node", address=meeting.address), _name())
    elif several and (meeting.address == "localhost" or is_loopback(meeting.address)):
        summary = say("On several nodes the ranks cannot meet at {address}: each node finds itself there", **where)
        yield _found(meeting, summary, _first_node())
    elif meeting.answer == "taken":
        yield _found(meeting, say("Port {port} of this node is taken already", **where), _other_port(meeting))
    elif meeting.answer == "silent":
        yield _found(
            meeting,
            say("{address}:{port} does not answer: the node is down, or packets are dropped on the way", **where),
            _open(),
        )
    elif meeting.answer in fine:
        yield PassedCheck(CHECK, fine[meeting.answer])
    elif meeting.answer:
        summary = say("{address}:{port} cannot be reached: {reason}", **where, reason=meeting.answer)
        yield _found(meeting, summary, _open())


def _found(meeting: RendezvousEndpoint, summary: Text, remedy: Remedy) -> Answer:
    return risk(
        CHECK,
        f"{meeting.address}:{meeting.port}",
        Cause.RENDEZVOUS,
        summary,
        severity=Severity.STOPS,
        evidence=(meeting.evidence,) if meeting.evidence is not None else (),
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


def _other_port(meeting: RendezvousEndpoint) -> Remedy:
    return Remedy(
        say("Take another port, or end the program that holds it"),
        RemedyKind.CONFIG,
        say("--master_port {port}; on one node --standalone takes any free one", port=meeting.port + 1),
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
