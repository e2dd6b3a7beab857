"""The network in namespaces with a name on loopback, a dead link, bridges, a closed port."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.check.network.network_facts import (
    TWO_NODES,
)

namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None,
    reason="network namespaces need root, ip and unshare",
)


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
