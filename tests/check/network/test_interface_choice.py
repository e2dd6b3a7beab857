"""Interfaces are taken as NCCL and Gloo take them."""

from __future__ import annotations

import pytest

from tests.check.network.network_facts import (
    COMPOSE,
    DOCKER,
    ETH,
    IB,
    LIBVIRT,
    LO,
    interface,
    settings,
)
from unhang.check.network.network import Address, HostName, Interfaces, NetworkInterface, planned_node_count
from unhang.check.network.transport_choice import gloo_choice, interface_matches, nccl_choice
from unhang.program.launch.job_environment import JobEnvironment
from unhang.program.launch.launch import Launch


@pytest.mark.parametrize(
    ("spec", "name", "taken"),
    [
        ("eth", "eth0", True),
        ("eth0", "eth01", True),
        ("=eth0", "eth01", False),
        ("ib,eth", "eth0", True),
        ("^docker,lo", "docker0", False),
        ("^docker,lo", "eth0", True),
        ("^=eth0", "eth01", True),
        ("eth0:1", "eth0", True),
    ],
)
def test_names_are_matched_as_nccl_matches_them(spec: str, name: str, taken: bool) -> None:
    assert interface_matches(spec, name) is taken


@pytest.mark.parametrize(
    ("here", "nccl", "taken"),
    [
        ((LO, DOCKER, ETH, IB), "2.27.3", ["ib0"]),
        ((LO, DOCKER, ETH, COMPOSE), "2.27.3", ["eth0", "br-3f2a"]),
        ((LO, DOCKER), "2.27.3", ["docker0"]),
        ((LO, LIBVIRT, ETH), "2.27.3", ["virbr0", "eth0"]),
        ((LO, LIBVIRT, ETH), "2.30.7", ["eth0"]),
        ((LO, LIBVIRT), "2.30.7", ["lo"]),
        ((LO, interface(2, "eth1", "10.0.0.9", running=False), ETH), "2.27.3", ["eth1", "eth0"]),
        ((LO, interface(2, "eth1", "10.0.0.9", running=False), ETH), None, ["eth0"]),
        ((LO, interface(2, "eth6", "fd00::1"), ETH), None, ["eth0", "eth6"]),
    ],
)
def test_nccl_looks_in_its_order(here: tuple[NetworkInterface, ...], nccl: str | None, taken: list[str]) -> None:
    assert [one.name for one in nccl_choice(Interfaces(here), JobEnvironment({}), nccl).interfaces] == taken


def test_the_family_and_a_value_of_one_character_are_read_as_nccl_reads_them() -> None:
    here = Interfaces((LO, interface(2, "eth0", "10.0.0.1", "fd00::1")))

    six = nccl_choice(here, settings(NCCL_SOCKET_FAMILY="AF_INET6"), None)
    ignored = nccl_choice(here, settings(NCCL_SOCKET_IFNAME="x"), None)

    assert six.address == Address("fd00::1", 24)
    assert not ignored.variable


def test_gloo_takes_whole_names_then_the_name_of_the_node_then_loopback() -> None:
    here = Interfaces((LO, ETH, IB))

    assert [one.name for one in gloo_choice(here, settings(GLOO_SOCKET_IFNAME="ib0"), None).interfaces] == ["ib0"]
    assert gloo_choice(here, settings(GLOO_SOCKET_IFNAME="ib"), None).interfaces == ()
    assert [one.name for one in gloo_choice(here, JobEnvironment({}), HostName("h", ("10.0.0.1",))).interfaces] == [
        "eth0"
    ]
    assert [one.name for one in gloo_choice(here, JobEnvironment({}), HostName("h", ("127.0.1.1",))).interfaces] == [
        "lo"
    ]
    assert [one.name for one in gloo_choice(here, JobEnvironment({}), HostName("h", ("10.9.9.9",))).interfaces] == [
        "lo"
    ]


@pytest.mark.parametrize(
    ("launch", "environment", "nodes"),
    [
        (Launch("torchrun"), {}, 1),
        (Launch("torchrun", {"nnodes": "1:4"}), {}, 4),
        (Launch("torchrun"), {"PET_NNODES": "2"}, 2),
        (Launch("python"), {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, 2),
        (Launch("python"), {}, None),
        (Launch("deepspeed"), {}, None),
    ],
)
def test_how_many_nodes_a_job_has(launch: Launch, environment: dict[str, str], nodes: int | None) -> None:
    assert planned_node_count(launch, environment) == nodes
