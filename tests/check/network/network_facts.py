"""Interfaces and findings of a job on two nodes, for the tests of what is said of its network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unhang.check.judge import judge
from unhang.check.network.network import Address, Interface, PlannedNodes
from unhang.host.look import Look, Situation
from unhang.program.launch.job_environment import Setting, Settings

TWO_NODES = ("torchrun", "--nnodes", "2", "--nproc-per-node", "1")


def settings(**values: str) -> Settings:
    return Settings({name: Setting(name, value) for name, value in values.items()})


def interface(
    index: int, name: str, *addresses: str, kind: str = "ether", running: bool = True, mtu: int = 1500
) -> Interface:
    return Interface(index, name, kind, True, running, mtu, tuple(Address(one, 24) for one in addresses))


LO = interface(1, "lo", "127.0.0.1", "::1", kind="loopback")
DOCKER = interface(2, "docker0", "172.17.0.1", kind="bridge")
ETH = interface(3, "eth0", "10.0.0.1")
IB = interface(4, "ib0", "10.1.0.1", kind="infiniband")
COMPOSE = interface(5, "br-3f2a", "172.18.0.1", kind="bridge")
LIBVIRT = interface(2, "virbr0", "192.168.122.1", kind="bridge")
TWO_NODES_FACTS = {PlannedNodes: Look(PlannedNodes(2))}


def findings(looks: Mapping[type, Any], *more: Mapping[type, Any], values: Settings | None = None) -> list[Any]:
    """What the risks of ``network`` say to these facts of a job on two nodes; one mapping a node."""
    nodes = [
        Situation(f"n{number}", looks={Settings: Look(values or Settings({})), **TWO_NODES_FACTS, **facts})
        for number, facts in enumerate((looks, *more))
    ]
    return list(judge(nodes, ["network"]).findings)


def subjects(found: list[Any]) -> list[str]:
    return [finding.subject for finding in found]
