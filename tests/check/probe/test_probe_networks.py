"""The probe and the search on two nodes with real faults between them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.check.probe import two_networks as networks
from tests.check.probe.lossy_link import lossy
from tests.check.probe.two_networks import PORT, Networks

pytestmark = [
    pytest.mark.job,
    pytest.mark.live,
    pytest.mark.skipif(bool(networks.why_not()), reason=networks.why_not()),
    pytest.mark.timeout(240),
]


@pytest.fixture
def nodes() -> Iterator[Networks]:
    with networks.two_nodes() as two:
        yield two
        assert two.processes() == []


def answers(nodes: Networks, *words: str) -> dict[str, Any]:
    first, *others = nodes.run(*words, "--format", "json")
    assert first.stdout, first.stderr + others[-1].stderr
    verdict: dict[str, Any] = json.loads(first.stdout)
    return verdict


def probed(nodes: Networks) -> dict[str, Any]:
    return answers(nodes, "check", "--only", "probe")


def test_two_healthy_nodes(nodes: Networks) -> None:
    verdict = probed(nodes)

    assert (verdict["status"], verdict["findings"]) == ("healthy", [])
    assert any("2 ranks over gloo" in item["what"] for item in verdict["checked"])


def test_a_link_of_10_mbit(nodes: Networks) -> None:
    for node in (1, 2):
        shaped = ("rate", "10mbit", "burst", "32kbit", "latency", "400ms")
        nodes.tc(node, "qdisc", "add", "dev", nodes.interface(node, 1), "root", "tbf", *shaped).check_returncode()

    (finding,) = probed(nodes)["findings"]

    assert (finding["severity"], finding["cause"]) == ("slows", "network-config")
    assert finding["subject"] == nodes.interface(1, 1)


@pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="this machine has no TUN devices to lose packets with")
def test_packets_that_are_lost(nodes: Networks) -> None:
    """TCP hides one lost packet of a hundred: nothing may be called stuck or wrong, only slow."""
    ends = [(nodes.names[node - 1], nodes.interface(node, 3)) for node in (1, 2)]
    with lossy(ends, every=100):
        for node in (1, 2):
            nodes.ip(node, "addr", "add", f"10.91.3.{node}/24", "dev", nodes.interface(node, 3))
            nodes.ip(node, "link", "set", nodes.interface(node, 3), "up")
            nodes.called(node, f"10.91.3.{node}")

        verdict = probed(nodes)

    assert {finding["severity"] for finding in verdict["findings"]} <= {"slows"}
    assert any("finished every step" in item["what"] for item in verdict["checked"])
    assert any("every result was right" in item["what"] for item in verdict["checked"])


def test_closed_ports(nodes: Networks) -> None:
    """Only the port of the store is open."""
    nodes.only_port(2, PORT)

    (finding,) = probed(nodes)["findings"]

    assert (finding["severity"], finding["cause"], finding["subject"]) == ("stops", "network-config", "connect")


def test_a_name_that_means_loopback(nodes: Networks) -> None:
    for node in (1, 2):
        nodes.called(node, "127.0.1.1")

    (finding,) = probed(nodes)["findings"]

    assert (finding["severity"], finding["cause"]) == ("stops", "network-config")
    assert "127.0.1.1" in " ".join(finding["because"])


def test_a_rank_that_never_comes(nodes: Networks) -> None:
    nodes.ip(2, "link", "set", nodes.interface(2, 1), "down")

    verdict = answers(nodes, "check", "--only", "probe", "--wait", "2")

    assert [finding["ranks"] for finding in verdict["findings"] if finding["cause"] == "rendezvous"] == [[1]]


def test_the_only_interface_that_works_is_found(nodes: Networks) -> None:
    nodes.dead(2)
    for node in (1, 2):
        nodes.called(node, f"10.91.2.{node}")

    (finding,) = answers(nodes, "bisect", "--limit", "3")["findings"]

    assert finding["remedies"][0]["set"] == {"GLOO_SOCKET_IFNAME": nodes.interface(1, 1)}
    assert "10.91.1.0/24" in finding["remedies"][0]["change"]
    assert (finding["check"], finding["cause"]) == ("probe", "network-config")
    assert finding["remedies"][1]["kind"] == "infrastructure"


def test_a_faster_interface_is_found_and_said_to_be_so_much_faster(nodes: Networks) -> None:
    for node in (1, 2):
        shaped = ("rate", "10mbit", "burst", "32kbit", "latency", "400ms")
        nodes.tc(node, "qdisc", "add", "dev", nodes.interface(node, 1), "root", "tbf", *shaped).check_returncode()

    (finding,) = answers(nodes, "bisect")["findings"]

    assert (finding["severity"], finding["remedies"][0]["set"]) == (
        "slows",
        {"GLOO_SOCKET_IFNAME": nodes.interface(1, 2)},
    )
    assert "times as fast as before" in finding["remedies"][0]["cost"]


def test_where_nothing_helps_nothing_is_recommended(nodes: Networks) -> None:
    for node in (1, 2):
        nodes.only_port(node, PORT)

    (finding,) = answers(nodes, "bisect", "--limit", "2")["findings"]

    assert all(not remedy["set"] for remedy in finding["remedies"])
    assert "trials helped" in " ".join(finding["because"])


def test_one_node_of_four_that_nobody_reaches_is_told_apart() -> None:
    with networks.behind_a_switch(4) as four:
        four.only_port(3, PORT)

        (finding,) = answers(four, "check", "--only", "probe")["findings"]

        assert (finding["severity"], finding["ranks"]) == ("stops", [2])
        assert "Tested in groups, 2 rounds" in " ".join(finding["because"])
        assert four.processes() == []


def test_the_name_of_the_namespace_is_gone(tmp_path: Path) -> None:
    with networks.two_nodes() as two:
        names = two.names

    assert not any((Path("/run/netns") / name).exists() for name in names)
