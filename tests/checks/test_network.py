"""The network as the libraries see it: in namespaces with a name on loopback, a dead link, bridges, a closed port."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from unhang.checks.machine import COMMAND_LIMIT_S, Machine, Output, StoredMachine
from unhang.checks.meeting_point import resolved
from unhang.checks.network import look
from unhang.checks.network_interfaces import _from_files, interfaces_of
from unhang.checks.plan import Plan
from unhang.diagnosis.preflight import judge
from unhang.facts.preflight.firewall import passage
from unhang.facts.preflight.gid_choice import chosen_gid
from unhang.facts.preflight.interface_choice import gloo_choice, matches, nccl_choice
from unhang.facts.preflight.launch import Launch
from unhang.facts.preflight.network import (
    Address,
    Firewall,
    Gid,
    HostName,
    Interface,
    Interfaces,
    MeetingPoint,
    PlannedNodes,
    RdmaPort,
    RdmaPorts,
    planned_nodes,
)
from unhang.facts.preflight.settings import Setting, Settings
from unhang.facts.preflight.situation import Look, Situation
from unhang.findings import Severity

namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None,
    reason="network namespaces need root, ip and unshare",
)
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


# The rules of the libraries


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
    assert matches(spec, name) is taken


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
def test_nccl_looks_in_its_order(here: tuple[Interface, ...], nccl: str | None, taken: list[str]) -> None:
    assert [one.name for one in nccl_choice(Interfaces(here), Settings({}), nccl).interfaces] == taken


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
    assert [one.name for one in gloo_choice(here, Settings({}), HostName("h", ("10.0.0.1",))).interfaces] == ["eth0"]
    assert [one.name for one in gloo_choice(here, Settings({}), HostName("h", ("127.0.1.1",))).interfaces] == ["lo"]
    assert [one.name for one in gloo_choice(here, Settings({}), HostName("h", ("10.9.9.9",))).interfaces] == ["lo"]


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
    assert planned_nodes(launch, environment) == nodes


# What is judged


def test_a_variable_that_names_nothing_stops_the_job_on_one_node_too() -> None:
    one_node = {PlannedNodes: Look(PlannedNodes(1)), Interfaces: Look(Interfaces((LO, ETH)))}

    found = findings(one_node, values=settings(NCCL_SOCKET_IFNAME="ens5"))

    assert [(f.subject, f.severity) for f in found] == [("NCCL_SOCKET_IFNAME", Severity.STOPS)]
    assert found[0].remedies[0].set == {"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"}


def test_loopback_is_wrong_between_nodes_only() -> None:
    looks = {Interfaces: Look(Interfaces((LO, ETH))), HostName: Look(HostName("gpu-1", ("127.0.1.1",)))}
    one_node = {**looks, PlannedNodes: Look(PlannedNodes(1))}
    unknown = {**looks, PlannedNodes: Look(PlannedNodes(None))}

    assert [(f.subject, f.severity) for f in findings(looks)] == [("gpu-1", Severity.STOPS)]
    assert [(f.subject, f.severity) for f in findings(unknown)] == [("gpu-1", Severity.NOTE)]
    assert findings(one_node) == []
    assert findings(looks, values=settings(GLOO_SOCKET_IFNAME="eth0")) == []


def test_bridges_matter_where_sockets_carry_the_data() -> None:
    name = HostName("h", ("10.0.0.1",))
    looks = {Interfaces: Look(Interfaces((LO, DOCKER, ETH, COMPOSE))), HostName: Look(name)}
    active = RdmaPort("mlx5_0", 1, "ACTIVE", "LinkUp", "InfiniBand", 400.0)

    assert subjects(findings(looks)) == ["br-3f2a"]
    assert findings({**looks, RdmaPorts: Look(RdmaPorts((active,)))}) == []
    assert subjects(
        findings({**looks, RdmaPorts: Look(RdmaPorts((active,)))}, values=settings(NCCL_IB_DISABLE="1"))
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
        (GIDS, {"NCCL_IB_GID_INDEX": "7"}, "empty entry"),
        (GIDS, {"NCCL_IB_GID_INDEX": "1"}, "own link"),
        (GIDS, {"NCCL_IB_GID_INDEX": "2"}, "RoCE v1"),
        (GIDS[:2], {}, "own link"),
        ((), {}, "No RoCE address"),
    ],
)
def test_a_roce_entry_that_does_not_lead_to_other_nodes(
    gids: tuple[Gid, ...], values: dict[str, str], wrong: str | None
) -> None:
    found = findings({RdmaPorts: Look(RdmaPorts((roce(*gids),)))}, values=settings(**values))

    assert [wrong in str(one.summary) for one in found] == ([True] if wrong else [])


def test_a_port_that_is_down_is_a_note_unless_it_was_chosen_or_is_the_only_one() -> None:
    up, down = roce(*GIDS), roce(*GIDS, state="DOWN", device="mlx5_1")
    both, alone = {RdmaPorts: Look(RdmaPorts((up, down)))}, {RdmaPorts: Look(RdmaPorts((down,)))}

    assert [f.severity for f in findings(both)] == [Severity.NOTE]
    assert [f.severity for f in findings(both, values=settings(NCCL_IB_HCA="mlx5"))] == [Severity.SLOWS]
    assert [f.severity for f in findings(alone)] == [Severity.SLOWS]
    assert findings(alone, values=settings(NCCL_IB_DISABLE="1")) == []
    assert subjects(findings(both, values=settings(NCCL_IB_HCA="=mlx5_9"))) == ["NCCL_IB_HCA"]


def test_nodes_that_differ_are_named_by_the_odd_one() -> None:
    def node(mtu: int, address: str = "10.0.0.1") -> dict[type, Any]:
        return {Interfaces: Look(Interfaces((LO, interface(2, "eth0", address, mtu=mtu))))}

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

    assert passage(Firewall(chains, {"INPUT": policy}), port).verdict == verdict


# This machine


@pytest.mark.skipif(shutil.which("ip") is None, reason="there is no ip")
def test_the_kernels_files_tell_what_ip_tells() -> None:
    told = interfaces_of(Machine()).found
    assert told is not None

    read = {one.name: one for one in _from_files(Machine(), set())}

    for one in told.all:
        assert (read[one.name].index, read[one.name].up, read[one.name].mtu) == (one.index, one.up, one.mtu)
        assert {a.text for a in read[one.name].addresses if a.family == 6} == {
            a.text for a in one.addresses if a.family == 6
        }
        assert [a for a in read[one.name].addresses if a.family == 4] == [a for a in one.addresses if a.family == 4][:1]


def test_a_port_that_is_taken_stops_the_job_and_a_free_one_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        taken = point(("torchrun", "--master-port", str(port), "train.py"))
    free = point(("torchrun", "--master-port", str(port), "train.py"))

    assert taken.answer == "taken"
    assert free.answer == "free"
    assert subjects(findings({MeetingPoint: Look(taken)})) == [f"127.0.0.1:{port}"]


def point(command: tuple[str, ...], **environment: str) -> MeetingPoint:
    looks = dict(look(Machine(environment={"PATH": os.environ["PATH"], **environment}), Plan(command)))
    found = looks[MeetingPoint].found
    assert isinstance(found, MeetingPoint)
    return found


def test_a_resolver_that_does_not_answer_is_no_name_that_does_not_resolve(tmp_path: Path) -> None:
    getent = tmp_path / "getent"
    getent.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    getent.chmod(0o700)
    machine = Machine(environment={"PATH": str(tmp_path)})

    found = resolved(machine, "node-b", limit_s=0.3)

    assert found.found is None
    assert "did not answer" in str(found.because)


@pytest.mark.parametrize(
    ("options", "environment", "where"),
    [
        ("", {}, ("127.0.0.1", 29500)),
        ("", {"MASTER_ADDR": "10.0.0.1"}, ("127.0.0.1", 29500)),
        ("", {"PET_MASTER_ADDR": "127.0.0.2", "PET_MASTER_PORT": "29501"}, ("127.0.0.2", 29501)),
        ("--rdzv-backend c10d --rdzv-endpoint 127.0.0.3", {}, ("127.0.0.3", 29400)),
        ("--rdzv-endpoint [::1]:29401", {}, ("::1", 29401)),
        ("--rdzv-backend c10d --rdzv-endpoint localhost:0", {}, None),
        ("--standalone", {}, None),
    ],
)
def test_where_torchrun_lets_the_ranks_meet(
    options: str, environment: dict[str, str], where: tuple[str, int] | None
) -> None:
    machine = Machine(environment={"PATH": os.environ["PATH"], **environment})
    meeting = dict(look(machine, Plan(("torchrun", *options.split(), "train.py"))))[MeetingPoint].found

    assert (None if meeting is None else (meeting.address, meeting.port)) == where


def test_a_name_nobody_knows_stops_the_job() -> None:
    meeting = point((*TWO_NODES, "--rdzv-endpoint", "no-such-node.invalid:29400", "train.py"))

    assert (meeting.address, meeting.port, meeting.addresses) == ("no-such-node.invalid", 29400, ())
    assert ["does not resolve" in str(one.summary) for one in findings({MeetingPoint: Look(meeting)})] == [True]


def test_localhost_is_no_place_for_two_nodes_to_meet() -> None:
    meeting = point(("python", "train.py"), MASTER_ADDR="localhost", MASTER_PORT="0")

    assert ["each node finds itself" in str(one.summary) for one in findings({MeetingPoint: Look(meeting)})] == [True]


class Torn(StoredMachine):
    """A stored machine whose every answer is cut off or spoiled somewhere."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder)
        self._chance = random.Random(seed)

    def _spoiled(self, text: str) -> str:
        at = self._chance.randrange(len(text) + 1)
        return self._chance.choice((text[:at], text[:at] + "\x00\u20ac:9z" + text[at + 1 :], text, ""))

    def read(self, path: str) -> Look[str]:
        look = super().read(path)
        return look if look.found is None else Look(self._spoiled(look.found))

    def command(self, words: Sequence[str], limit_s: float = COMMAND_LIMIT_S) -> Look[Output]:
        look = super().command(words, limit_s)
        return look if look.found is None else Look(Output(self._spoiled(look.found.text), look.found.code))


@pytest.mark.parametrize("machine", ["roce_copied_gid", "efa_without_plugin"])
def test_torn_answers_break_nothing(machine: str) -> None:
    folder = Path(__file__).parents[1] / "machines" / machine
    for seed in range(60):
        looks = dict(look(Torn(folder, seed), Plan((*TWO_NODES, "--master-addr", "gpu-0", "train.py"))))
        judge([Situation("a", looks=looks), Situation("b", looks=looks)], ["network"])


# Namespaces


def checked(script: str, *command: str, node: str = "node-a", prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    """``unhang check --only network -- COMMAND`` in a network of its own, after ``script``."""
    unhang = "from unhang.cli.main import main; main()"
    words = [*prefix, "unshare", *(() if prefix else ("-n",)), "-u", "-m", "sh", "-ec"]
    sysfs = "" if prefix else "mount -t sysfs sysfs /sys; "  # ip netns exec has done it
    setup = f'mount --make-rprivate /; {sysfs}ip link set lo up; hostname {node}\n{script}\nexec "$@"'
    run = [*words, setup, "sh", sys.executable, "-c", unhang, "check", "--only", "network", "--format", "json"]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    if "--" in command:
        for pair in command[: command.index("--")]:
            environment.update([pair.split("=", 1)])
        command = command[command.index("--") + 1 :]
    done = subprocess.run(
        [*run, "--", *command], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert done.returncode in (0, 1), done.stderr
    return dict(json.loads(done.stdout))


def hosts(tmp_path: Path, *lines: str) -> str:
    file = tmp_path / "hosts"
    file.write_text("\n".join(("127.0.0.1 localhost", *lines, "")))
    return f"mount --bind {file} /etc/hosts"


ETH0 = """ip link add eth0 type veth peer name far0
ip addr add 10.77.0.1/24 dev eth0; ip link set far0 up; ip link set eth0 up"""


@namespaces
def test_a_node_whose_name_is_on_loopback(tmp_path: Path) -> None:
    bad = checked(f"{hosts(tmp_path, '127.0.1.1 node-a')}\n{ETH0}", *TWO_NODES, "train.py")
    good = checked(f"{hosts(tmp_path, '10.77.0.1 node-a')}\n{ETH0}", *TWO_NODES, "train.py")

    assert [(f["subject"], f["severity"]) for f in bad["findings"] if f["subject"] != "127.0.0.1:29500"] == [
        ("node-a", "stops")
    ]
    assert bad["suggested"]["set"]["GLOO_SOCKET_IFNAME"] == "eth0"
    assert "node-a" not in [f["subject"] for f in good["findings"]]


@namespaces
def test_an_interface_that_is_down_cannot_be_the_one_that_is_asked_for(tmp_path: Path) -> None:
    two = f"{hosts(tmp_path, '10.77.0.1 node-a')}\n{ETH0}\nip link add eth1 type veth peer name far1"

    down = checked(two, "NCCL_SOCKET_IFNAME=eth1", "--", "torchrun", "train.py")
    up = checked(two, "NCCL_SOCKET_IFNAME=eth0", "--", "torchrun", "train.py")

    assert [(f["subject"], f["severity"]) for f in down["findings"]] == [("NCCL_SOCKET_IFNAME", "stops")]
    assert up["findings"] == []


@namespaces
def test_a_bridge_of_docker_is_left_out_and_one_of_compose_is_not(tmp_path: Path) -> None:
    bridges = "\n".join(
        f"ip link add {name} type bridge; ip addr add {address}/16 dev {name}; ip link set {name} up\n"
        f"ip link add v{number} type veth peer name w{number}; ip link set w{number} up\n"
        f"ip link set v{number} master {name}; ip link set v{number} up"
        for number, (name, address) in enumerate((("docker0", "172.17.0.1"), ("br-3f2a", "172.18.0.1")))
    )
    script = f"{hosts(tmp_path, '10.77.0.1 node-a')}\n{bridges}\n{ETH0}"

    several = checked(script, *TWO_NODES, "--master-addr", "10.77.0.1", "train.py")
    one = checked(script, "torchrun", "train.py")

    assert [(f["subject"], f["severity"]) for f in several["findings"]] == [("br-3f2a", "stops")]
    assert one["findings"] == []


@contextlib.contextmanager
def two_nodes() -> Iterator[tuple[str, str]]:
    """Two networks with a cable between them: 10.78.0.1 and 10.78.0.2."""
    names = (f"unhang-a{os.getpid()}", f"unhang-b{os.getpid()}")
    script = "\n".join(
        (
            f"ip netns add {names[0]}; ip netns add {names[1]}",
            f"ip -n {names[0]} link add eth0 type veth peer name eth0 netns {names[1]}",
            *(
                f"ip -n {name} addr add 10.78.0.{number}/24 dev eth0\n"
                f"ip -n {name} link set eth0 up\nip -n {name} link set lo up"
                for number, name in enumerate(names, 1)
            ),
        )
    )
    try:
        subprocess.run(["sh", "-ec", script], timeout=20, check=True, capture_output=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], timeout=20, check=False, capture_output=True)


@namespaces
@pytest.mark.skipif(shutil.which("iptables") is None, reason="there is no iptables")
def test_a_port_closed_by_iptables_is_seen_from_both_sides(tmp_path: Path) -> None:
    command = (*TWO_NODES, "--master-addr", "10.78.0.2", "--master-port", "29511", "train.py")
    with two_nodes() as (first, second):
        inside = [["ip", "netns", "exec", name] for name in (first, second)]
        names = hosts(tmp_path, "10.78.0.1 node-a", "10.78.0.2 node-b")
        open_ = checked(names, *command, prefix=tuple(inside[0]))
        closing = subprocess.run(
            [*inside[1], "iptables", "-A", "INPUT", "-p", "tcp", "--dport", "29511", "-j", "DROP"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        if closing.returncode:
            pytest.skip(f"this kernel takes no rules of iptables: {closing.stderr.strip()}")
        from_outside = checked(names, *command, prefix=tuple(inside[0]))
        from_inside = checked(names, *command, node="node-b", prefix=tuple(inside[1]))

    assert open_["findings"] == []
    assert [(f["subject"], f["cause"]) for f in from_outside["findings"]] == [("10.78.0.2:29511", "rendezvous")]
    assert [(f["subject"], f["cause"]) for f in from_inside["findings"]] == [("firewall", "network-config")]
    assert "29511" in from_inside["findings"][0]["evidence"][0]["text"]


@namespaces
@pytest.mark.live
def test_a_silent_node_is_seen_without_a_firewall_too(tmp_path: Path) -> None:
    command = (*TWO_NODES, "--master-addr", "10.78.0.2", "train.py")
    with two_nodes() as (first, second):
        subprocess.run(["ip", "-n", second, "link", "set", "eth0", "down"], timeout=20, check=True)
        names = hosts(tmp_path, "10.78.0.1 node-a")
        verdict = checked(names, *command, prefix=("ip", "netns", "exec", first))

    assert "10.78.0.2:29500" in [f["subject"] for f in verdict["findings"]]


GLOO = """
import datetime, os, sys
import torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="10.78.0.1", MASTER_PORT="29512", RANK=sys.argv[1], WORLD_SIZE="2")
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
one = torch.ones(1)
dist.all_reduce(one)
print("met", int(one), flush=True)
os._exit(0)
"""


@namespaces
@pytest.mark.job
@pytest.mark.live
@pytest.mark.parametrize(("suggested", "met"), [({}, 0), ({"GLOO_SOCKET_IFNAME": "eth0"}, 2)])
def test_gloo_does_what_was_foretold(tmp_path: Path, suggested: dict[str, str], met: int) -> None:
    with two_nodes() as names:
        ranks = []
        for rank, name in enumerate(names):
            (tmp_path / str(rank)).mkdir()
            own = hosts(tmp_path / str(rank), f"127.0.1.1 node-{rank}")
            script = f'mount --make-rprivate /; hostname node-{rank}; {own}; exec timeout 25 "$@"'
            words = ["ip", "netns", "exec", name, "unshare", "-u", "-m", "sh", "-ec", script, "sh"]
            words += [sys.executable, "-c", GLOO, str(rank)]
            environment = {"PATH": os.environ["PATH"], **suggested}
            ranks.append(
                subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            )
        told = [rank.communicate(timeout=60)[0] for rank in ranks]

    assert sum("met 2" in one for one in told) == met, told
