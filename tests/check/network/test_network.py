"""What is said of the network of a job on several nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.check.network.network_facts import (
    COMPOSE,
    DOCKER,
    ETH,
    LO,
    findings,
    interface,
    settings,
    subjects,
)
from unhang.check.network.firewall import firewall_decision
from unhang.check.network.network import Firewall, Gid, HostName, Interfaces, PlannedNodes, RdmaPort, RdmaPorts
from unhang.check.network.transport_choice import chosen_gid
from unhang.findings import Severity
from unhang.host.inspection_result import InspectionResult


def test_a_variable_that_names_nothing_stops_the_job_on_one_node_too() -> None:
    one_node = {PlannedNodes: InspectionResult(PlannedNodes(1)), Interfaces: InspectionResult(Interfaces((LO, ETH)))}

    found = findings(one_node, values=settings(NCCL_SOCKET_IFNAME="ens5"))

    assert [(f.subject, f.severity) for f in found] == [("NCCL_SOCKET_IFNAME", Severity.STOPS)]
    assert found[0].remedies[0].set == {"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"}


def test_loopback_is_wrong_between_nodes_only() -> None:
    results = {
        Interfaces: InspectionResult(Interfaces((LO, ETH))),
        HostName: InspectionResult(HostName("gpu-1", ("127.0.1.1",))),
    }
    one_node = {**results, PlannedNodes: InspectionResult(PlannedNodes(1))}
    unknown = {**results, PlannedNodes: InspectionResult(PlannedNodes(None))}

    assert [(f.subject, f.severity) for f in findings(results)] == [("gpu-1", Severity.STOPS)]
    assert [(f.subject, f.severity) for f in findings(unknown)] == [("gpu-1", Severity.NOTE)]
    assert findings(one_node) == []
    assert findings(results, values=settings(GLOO_SOCKET_IFNAME="eth0")) == []


def test_bridges_matter_where_sockets_carry_the_data() -> None:
    name = HostName("h", ("10.0.0.1",))
    results = {Interfaces: InspectionResult(Interfaces((LO, DOCKER, ETH, COMPOSE))), HostName: InspectionResult(name)}
    active = RdmaPort("mlx5_0", 1, "ACTIVE", "LinkUp", "InfiniBand", 400.0)

    assert subjects(findings(results)) == ["br-3f2a"]
    assert findings({**results, RdmaPorts: InspectionResult(RdmaPorts((active,)))}) == []
    assert subjects(
        findings({**results, RdmaPorts: InspectionResult(RdmaPorts((active,)))}, values=settings(NCCL_IB_DISABLE="1"))
    ) == ["br-3f2a"]


GIDS = (
    Gid(0, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "IB/RoCE v1", "eth0"),
    Gid(1, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "RoCE v2", "eth0"),
    Gid(2, "0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1", "eth0"),
    Gid(3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "eth0"),
)


def roce(*gids: Gid, state: str = "ACTIVE", device: str = "mlx5_0", rate: float = 400.0) -> RdmaPort:
    return RdmaPort(device, 1, state, "LinkUp", "Ethernet", rate, gids=gids)


@pytest.mark.parametrize(
    ("gids", "values", "index"),
    [
        (GIDS, {}, 3),
        (GIDS, {"NCCL_IB_GID_INDEX": "1"}, 1),
        (GIDS, {"NCCL_IB_ROCE_VERSION_NUM": "1"}, 2),
        (GIDS, {"NCCL_IB_GID_INDEX": "7"}, None),
        ((), {}, None),
        (GIDS[:2], {}, 0),
    ],
)
def test_the_roce_entry_nccl_would_use(gids: tuple[Gid, ...], values: dict[str, str], index: int | None) -> None:
    gid = chosen_gid(roce(*gids), settings(**values))

    assert (None if gid is None else gid.index) == index


@pytest.mark.parametrize(
    ("gids", "values", "wrong"),
    [
        (GIDS, {}, None),
        (GIDS, {"NCCL_IB_GID_INDEX": "7"}, "empty GID"),
        (GIDS, {"NCCL_IB_GID_INDEX": "1"}, "link-local"),
        (GIDS, {"NCCL_IB_GID_INDEX": "2"}, "RoCE v1"),
        (GIDS[:2], {}, "link-local"),
        ((), {}, "No usable RoCE address"),
    ],
)
def test_a_roce_entry_that_does_not_lead_to_other_nodes(
    gids: tuple[Gid, ...], values: dict[str, str], wrong: str | None
) -> None:
    found = findings({RdmaPorts: InspectionResult(RdmaPorts((roce(*gids),)))}, values=settings(**values))

    assert [wrong in str(one.summary) for one in found] == ([True] if wrong else [])


def test_a_port_that_is_down_is_a_note_unless_it_was_chosen_or_is_the_only_one() -> None:
    up, down = roce(*GIDS), roce(*GIDS, state="DOWN", device="mlx5_1")
    both, alone = (
        {RdmaPorts: InspectionResult(RdmaPorts((up, down)))},
        {RdmaPorts: InspectionResult(RdmaPorts((down,)))},
    )

    assert [f.severity for f in findings(both)] == [Severity.NOTE]
    assert [f.severity for f in findings(both, values=settings(NCCL_IB_HCA="mlx5"))] == [Severity.SLOWS]
    assert [f.severity for f in findings(alone)] == [Severity.SLOWS]
    assert findings(alone, values=settings(NCCL_IB_DISABLE="1")) == []
    assert subjects(findings(both, values=settings(NCCL_IB_HCA="=mlx5_9"))) == ["NCCL_IB_HCA"]


def test_nodes_that_differ_are_named_by_the_odd_one() -> None:
    def node(mtu: int, address: str = "10.0.0.1") -> dict[type, Any]:
        return {Interfaces: InspectionResult(Interfaces((LO, interface(2, "eth0", address, mtu=mtu))))}

    alike = findings(node(9000), node(9000))
    odd = findings(node(9000), node(9000), node(1500))
    families = findings(node(9000), node(9000, "fd00::1"), node(9000))

    assert alike == []
    assert [(one.subject, one.nodes) for one in odd] == [("MTU", ("n2",))]
    assert [(one.subject, one.nodes) for one in families] == [("address family", ("n1",))]


RULES = """-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p udp -j DROP
-A INPUT -p tcp -m tcp --dport 29500 -j ACCEPT
-A INPUT -p tcp -m multiport --dports 30000:30010,8080 -j REJECT --reject-with tcp-reset"""


@pytest.mark.parametrize(
    ("rules", "policy", "port", "verdict"),
    [
        ("", "ACCEPT", 29500, "open"),
        (RULES, "DROP", 29500, "open"),
        (RULES, "DROP", 40000, "closed"),
        (RULES, "ACCEPT", 30005, "closed"),
        (RULES, "ACCEPT", 40000, "open"),
        ("-A INPUT -s 10.0.0.0/8 -j ACCEPT", "DROP", 40000, "unsure"),
        ("-A INPUT -j IN\n-A IN -p tcp -j DROP", "ACCEPT", 40000, "closed"),
        ("-A INPUT -j IN\n-A IN -p tcp -j RETURN\n-A IN -j DROP", "ACCEPT", 40000, "open"),
        ("-A INPUT -p tcp -m connlimit --connlimit-above 20 -j DROP", "ACCEPT", 40000, "open"),
    ],
)
def test_rules_are_followed_for_a_new_connection(rules: str, policy: str, port: int, verdict: str) -> None:
    chains: dict[str, tuple[str, ...]] = {}
    for line in rules.splitlines():
        chains[line.split()[1]] = (*chains.get(line.split()[1], ()), line)

    assert firewall_decision(Firewall(chains, {"INPUT": policy}), port).verdict == verdict
