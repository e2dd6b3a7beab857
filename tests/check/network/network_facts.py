"""Interfaces and findings of a job on two nodes, for the tests of what is said of its network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unhang.check.judge import judge
from unhang.check.network.network import Address, NetworkInterface, PlannedNodes
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.program.launch.job_environment import JobEnvironment, VariableSetting

TWO_NODES = ("torchrun", "--nnodes", "2", "--nproc-per-node", "1")


def settings(**values: str) -> JobEnvironment:
    return JobEnvironment({name: VariableSetting(name, value) for name, value in values.items()})


def interface(
    index: int, name: str, *addresses: str, kind: str = "ether", running: bool = True, mtu: int = 1500
) -> NetworkInterface:
    return NetworkInterface(index, name, kind, running, mtu, tuple(Address(one, 24) for one in addresses))


LO = interface(1, "lo", "127.0.0.1", "::1", kind="loopback")
DOCKER = interface(2, "docker0", "172.17.0.1", kind="bridge")
ETH = interface(3, "eth0", "10.0.0.1")
IB = interface(4, "ib0", "10.1.0.1", kind="infiniband")
COMPOSE = interface(5, "br-3f2a", "172.18.0.1", kind="bridge")
LIBVIRT = interface(2, "virbr0", "192.168.122.1", kind="bridge")
TWO_NODES_FACTS = {PlannedNodes: InspectionResult(PlannedNodes(2))}


def findings(results: Mapping[type, Any], *more: Mapping[type, Any], values: JobEnvironment | None = None) -> list[Any]:
    """What the risks of ``network`` say to these facts of a job on two nodes; one mapping a node."""
    nodes = [
        NodeInspection(
            f"n{number}",
            results={JobEnvironment: InspectionResult(values or JobEnvironment({})), **TWO_NODES_FACTS, **facts},
        )
        for number, facts in enumerate((results, *more))
    ]
    return list(judge(nodes, ["network"]).findings)


def subjects(found: list[Any]) -> list[str]:
    return [finding.subject for finding in found]
