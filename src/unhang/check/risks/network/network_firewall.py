"""This node's firewall drops connections that other nodes have to make.

What happens: besides the meeting point, NCCL and Gloo listen on ports the kernel picks, on every node.

Why it hangs: a packet that is dropped is not answered; the other rank tries until the limit. The meeting itself may
work, when only its port was opened.

Example: ``iptables -P INPUT DROP`` with an exception for port 29500; ufw or firewalld with their defaults.

Fix: accept everything from the network of the nodes.

Certain when: never; rules elsewhere (a cloud's security groups) are not seen.

Possible when: no rule accepts a new connection to such a port.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.network.firewall import firewall_decision
from unhang.check.network.network import Firewall, RendezvousEndpoint
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, Evidence, NotChecked, PassedCheck, Remedy, RemedyKind, Severity, Source
from unhang.host.inspection_result import NOT_INSPECTED, NodeInspection
from unhang.sentences import say

CHECK = "network"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the ports the job would listen on; on one node nobody comes from outside."""
    result = here.result(Firewall)
    if result is NOT_INSPECTED:
        return
    gap = could_not(CHECK, say("Whether a firewall of this node drops connections of the others"), result)
    if gap is not None:
        yield gap
    if result.found is None:
        return
    meeting = here.found(RendezvousEndpoint)
    any_port = sum(result.found.listening) // 2
    ports = [meeting.port] if meeting is not None and meeting.here and meeting.port else []
    passages = {port: firewall_decision(result.found, port) for port in (*ports, any_port)}
    closed = {port: one for port, one in passages.items() if one.verdict == "closed"}
    if closed:
        rules = dict.fromkeys(one.rule for one in closed.values())
        yield _drops(
            result.found, any_port in closed, ports, tuple(Evidence(Source("iptables -S"), rule) for rule in rules)
        )
    elif result.found.dropping or any(one.verdict == "unsure" for one in passages.values()):
        because = say("its rules tell senders apart, or are written for nftables")
        what = say("Whether a firewall of this node drops connections of the others")
        yield NotChecked(what, because, "sudo nft list ruleset", check=CHECK)
    else:
        yield PassedCheck(CHECK, say("the firewall of this node lets connections in"))


def _drops(firewall: Firewall, every: bool, ports: list[int], evidence: tuple[Evidence, ...]) -> Answer:
    low, high = firewall.listening
    return risk(
        CHECK,
        "firewall",
        Cause.NETWORK_CONFIG,
        say(
            "The firewall of this node drops new connections to ports {low}-{high}, where NCCL and Gloo listen",
            low=low,
            high=high,
        )
        if every
        else say("The firewall of this node drops new connections to port {port}, where the ranks meet", port=ports[0]),
        severity=Severity.STOPS,
        certainty=Certainty.LIKELY,
        evidence=evidence,
        remedies=(
            Remedy(
                say("Accept connections from the network of the nodes"),
                RemedyKind.INFRASTRUCTURE,
                say("iptables -I INPUT -s 10.0.0.0/8 -j ACCEPT, with the nodes' own network"),
                say("whoever is in that network reaches the ports too"),
                say("unhang check --only network on every node"),
            ),
        ),
    )
