"""Hosts as namespaces behind a switch, each with its own name, network, processes, shared memory and clock. Needs root.

The disk is the same for all of them: what a cluster has as its shared file system. What runs on a host ends with its
first process, so nothing is left behind.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

COMPILER = shutil.which("cc")
"""Another time of day on a host needs one; libfaketime would change sleeping too, and fails at it."""
_HOSTS = Path("/etc/netns")
_TOOLS = ("ip", "tc", "unshare", "nsenter", "nft")
_FIRST_PROCESS = """
hostname "$0" && mount -t tmpfs -o mode=1777 shm /dev/shm && trap "" CHLD && exec sleep infinity
"""


def why_not() -> str:
    """Why there can be no hosts here; empty when there can."""
    if os.geteuid() != 0:
        return "hosts as namespaces need root"
    missing = [name for name in _TOOLS if shutil.which(name) is None]
    if missing:
        return f"hosts as namespaces need {', '.join(missing)}"
    trial = "ip link add uht0 type veth peer name uht1 && ip link add uht2 type bridge && mount -t tmpfs shm /dev/shm"
    made = subprocess.run(
        ["unshare", "--net", "--uts", "--pid", "--mount", "--fork", "sh", "-c", trial], capture_output=True, check=False
    )
    return "" if made.returncode == 0 else f"no namespaces here: {made.stderr.decode(errors='replace').strip()}"


@dataclass(slots=True)
class Host:
    """One host. ``first``: its first process, as seen from outside; ``clock_s``: how far its time of day is ahead."""

    name: str
    number: int
    space: str
    first: int
    clock_s: int = 0
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """On the switch."""
        return f"10.92.0.{self.number}"

    @property
    def enter(self) -> list[str]:
        """What stands before a command that is to run here."""
        return ["nsenter", f"--target={self.first}", "--net", "--uts", "--pid", "--mount", "--"]

    def start(
        self, words: Sequence[str], log: Path, *, environment: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Run a command here; what it prints goes to ``log``."""
        own = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
        if self.clock_s:
            own |= {"LD_PRELOAD": str(_other_clock(log.parent)), "OTHER_CLOCK_S": str(self.clock_s)}
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*self.enter, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**own, **(environment or {})},
                cwd=cwd,
            )
        self.started.append(process)
        return process

    def pids(self, words: str) -> list[int]:
        """Processes of this host whose command line holds ``words``; numbers as seen from outside."""
        space, found = (Path(f"/proc/{self.first}/ns/pid")).stat().st_ino, []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if words in line and (path / "ns/pid").stat().st_ino == space:
                    found.append(int(path.name))
        return sorted(found)

    def switch_off(self) -> None:
        """Power off: everything on it ends at once, and nobody says goodbye."""
        with suppress(ProcessLookupError):
            os.kill(self.first, signal.SIGKILL)

    def end(self) -> None:
        """Everything on it ends."""
        self.switch_off()
        for process in self.started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()
            process.wait()


@dataclass(slots=True)
class Hosts:
    """Hosts h1, h2 … and the switch between them (a namespace of its own)."""

    switch: str
    all: list[Host] = field(default_factory=list)

    def __getitem__(self, number: int) -> Host:
        return next(host for host in self.all if host.number == number)

    def port(self, host: Host) -> str:
        """Where ``host`` is plugged in."""
        return f"port{host.number}"

    def cut(self, host: Host) -> None:
        """No frame passes any more, and no link goes down: nothing refuses, nothing answers."""
        self._rule(host, "cut", "drop")

    def mend(self, host: Host) -> None:
        """Frames pass again."""
        _run("ip", "netns", "exec", self.switch, "nft", f"delete table bridge cut{host.number}")

    def loses(self, host: Host, percent: int) -> None:
        """So many of the frames to and from ``host`` do not arrive, at random."""
        self._rule(host, "lossy", f"numgen random mod 100 < {percent} counter drop")

    def _rule(self, host: Host, name: str, rule: str) -> None:
        port = self.port(host)
        rules = "; ".join(f"{side} {port} {rule}" for side in ("iifname", "oifname"))
        chain = f"chain forward {{ type filter hook forward priority 0; {rules}; }};"
        _run("ip", "netns", "exec", self.switch, "nft", f"table bridge {name}{host.number} {{ {chain} }}")

    def lost(self) -> int:
        """How many frames were lost so far."""
        rules = subprocess.check_output(["ip", "netns", "exec", self.switch, "nft", "list", "ruleset"], text=True)
        return sum(int(count) for count in re.findall(r"packets (\d+)", rules))

    def narrow(self, host: Host, rate: str) -> None:
        """Bytes to and from ``host`` pass no faster than ``rate`` (``10mbit``)."""
        shape = ["root", "tbf", "rate", rate, "burst", "32kbit", "latency", "400ms"]
        _run("ip", "netns", "exec", self.switch, "tc", "qdisc", "add", "dev", self.port(host), *shape)
        _run("ip", "netns", "exec", host.space, "tc", "qdisc", "add", "dev", "eth0", *shape)


@contextmanager
def hosts(count: int = 3) -> Iterator[Hosts]:
    """``count`` hosts that reach each other as h1, h2 …; all of it is gone afterwards."""
    with ExitStack() as stack:
        made = Hosts(f"uh{os.getpid()}sw")
        _space(stack, made.switch)
        _run("ip", "-n", made.switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", made.switch, "link", "set", "bridge", "up")
        names = {number: f"h{number}" for number in range(1, count + 1)}
        for number, name in names.items():
            made.all.append(_host(stack, made, number, name, count))
        yield made


def _host(stack: ExitStack, made: Hosts, number: int, name: str, count: int) -> Host:
    space = f"uh{os.getpid()}{name}"
    _space(stack, space)
    (_HOSTS / space).mkdir(parents=True)
    stack.callback(shutil.rmtree, _HOSTS / space, ignore_errors=True)
    lines = ["127.0.0.1 localhost", *(f"10.92.0.{other} h{other}" for other in range(1, count + 1))]
    (_HOSTS / space / "hosts").write_text("\n".join(lines) + "\n")
    port = f"port{number}"
    _run("ip", "-n", made.switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
    _run("ip", "-n", made.switch, "link", "set", port, "master", "bridge", "up")
    for words in (("lo", "up"), ("eth0", "up")):
        _run("ip", "-n", space, "link", "set", *words)
    _run("ip", "-n", space, "addr", "add", f"10.92.0.{number}/24", "dev", "eth0")
    apart = ["unshare", "--uts", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child"]
    front = subprocess.Popen(["ip", "netns", "exec", space, *apart, "sh", "-c", _FIRST_PROCESS, name])
    stack.callback(front.wait, 60)
    stack.callback(front.kill)
    host = Host(name, number, space, _first_process(front.pid))
    stack.callback(host.end)
    return host


def _space(stack: ExitStack, name: str) -> None:
    _run("ip", "netns", "add", name)
    stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False)


def _first_process(front: int) -> int:
    """The process 1 below ``front``, once it has become what it stays."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = Path(f"/proc/{front}/task/{front}/children").read_text().split()
        if children and Path(f"/proc/{children[0]}/comm").read_text() == "sleep\n":
            return int(children[0])
        time.sleep(0.01)
    raise ProcessLookupError(front)


def _other_clock(place: Path) -> Path:
    made = place / "other_clock.so"
    if not made.exists():
        assert COMPILER is not None
        _run(
            COMPILER, "-shared", "-fPIC", "-O1", "-o", str(made), str(Path(__file__).with_name("other_clock.c")), "-ldl"
        )
    return made


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
