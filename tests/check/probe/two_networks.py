"""Network namespaces joined by two links (two nodes) or by a switch (more), each a node of its own. Needs root."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PORT = 29517
LIMIT_S = 110.0
MAIN = "from unhang.cli.main import main; main()"
_HOSTS = Path("/etc/netns")


def why_not() -> str:
    """Why there can be no namespaces here; empty when there can."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("tc") is None:
        return "network namespaces need root, ip and tc"
    made = subprocess.run(
        ["unshare", "-n", "-m", "ip", "link", "add", "x", "type", "veth"], capture_output=True, check=False
    )
    return "" if made.returncode == 0 else "this kernel makes no network namespaces or veth pairs"


@dataclass(frozen=True)
class Networks:
    """``names``: of the namespaces. Node n has 10.91.L.n on link L (1 and 2; 1 alone behind a switch)."""

    names: tuple[str, ...]

    def interface(self, node: int, link: int) -> str:
        return f"uh{node}l{link}p{os.getpid() % 10000}"

    def ip(self, node: int, *words: str) -> None:
        subprocess.run(["ip", "-n", self.names[node - 1], *words], check=True, capture_output=True)

    def tc(self, node: int, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["ip", "netns", "exec", self.names[node - 1], "tc", *words], capture_output=True, check=False
        )

    def called(self, node: int, address: str) -> None:
        """What the host's own name resolves to on that node."""
        lines = [f"{address} {socket.gethostname()}", "127.0.0.1 localhost"]
        lines += [f"10.91.{link}.{other} n{other}l{link}" for link in (1, 2) for other in range(1, len(self.names) + 1)]
        (_HOSTS / self.names[node - 1] / "hosts").write_text("\n".join(lines) + "\n")

    def only_port(self, node: int, port: int) -> None:
        """Nothing but ``port``, on either side, gets out of that node: what firewalls of clusters do."""
        for number, side in enumerate(("dport", "sport")):
            self.ip(node, "rule", "add", "pref", str(5 + number), "ipproto", "tcp", side, str(port), "lookup", "main")
        self.ip(node, "rule", "add", "pref", "9", "to", "10.91.0.0/16", "ipproto", "tcp", "blackhole")

    def dead(self, link: int) -> None:
        """Frames on that link go to a station that does not exist: nothing answers, nothing refuses."""
        for node, other in ((1, 2), (2, 1)):
            self.ip(
                node, "neigh", "replace", f"10.91.{link}.{other}", "lladdr", "02:00:00:00:00:99",
                "dev", self.interface(node, link), "nud", "permanent",
            )  # fmt: skip

    def run(self, *words: str, environment: Mapping[str, str] | None = None) -> list[subprocess.CompletedProcess[str]]:
        """``unhang WORDS…`` on both nodes at once, as a launcher would start it."""
        started = []
        for rank, name in enumerate(self.names):
            own = {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(self.names)),
                "MASTER_ADDR": "10.91.1.1",
                "MASTER_PORT": str(PORT),
            }
            started.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", name, sys.executable, "-c", MAIN, *words],
                    env={**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", **own, **(environment or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        ended = []
        try:
            for process in started:
                out, err = process.communicate(timeout=LIMIT_S)
                ended.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
        finally:
            for process in started:
                process.kill()
                process.wait()
        return ended

    def processes(self) -> list[str]:
        """What still runs on the nodes."""
        found = [subprocess.check_output(["ip", "netns", "pids", name], text=True) for name in self.names]
        return [pid for answer in found for pid in answer.split()]


@contextmanager
def namespaces(count: int) -> Iterator[Networks]:
    """Nodes without any link; each node's name is its address on link 1."""
    networks = Networks(tuple(f"unhang{os.getpid()}n{number}" for number in range(1, count + 1)))
    try:
        for node, name in enumerate(networks.names, 1):
            subprocess.run(["ip", "netns", "add", name], check=True)
            (_HOSTS / name).mkdir(parents=True)
            networks.ip(node, "link", "set", "lo", "up")
            networks.called(node, f"10.91.1.{node}")
        yield networks
    finally:
        for name in networks.names:
            subprocess.run(["ip", "netns", "del", name], check=False)
            shutil.rmtree(_HOSTS / name, ignore_errors=True)


@contextmanager
def two_nodes() -> Iterator[Networks]:
    """Both links work."""
    with namespaces(2) as networks:
        for link in (1, 2):
            ends = [networks.interface(node, link) for node in (1, 2)]
            subprocess.run(["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]], check=True)
            for node, end in enumerate(ends, 1):
                _connect(networks, node, link, end)
        yield networks


@contextmanager
def behind_a_switch(count: int) -> Iterator[Networks]:
    """Every node on link 1 of all others; the switch stands at the first node."""
    with namespaces(count) as networks:
        networks.ip(1, "link", "add", "switch", "type", "bridge")
        networks.ip(1, "link", "set", "switch", "up")
        networks.ip(1, "addr", "add", "10.91.1.1/24", "dev", "switch")
        for node in range(2, count + 1):
            own, port = networks.interface(node, 1), networks.interface(node, 9)
            subprocess.run(["ip", "link", "add", own, "type", "veth", "peer", "name", port], check=True)
            subprocess.run(["ip", "link", "set", port, "netns", networks.names[0]], check=True)
            networks.ip(1, "link", "set", port, "master", "switch", "up")
            _connect(networks, node, 1, own)
        yield networks


def _connect(networks: Networks, node: int, link: int, end: str) -> None:
    subprocess.run(["ip", "link", "set", end, "netns", networks.names[node - 1]], check=True)
    networks.ip(node, "addr", "add", f"10.91.{link}.{node}/24", "dev", end)
    networks.ip(node, "link", "set", end, "up")
