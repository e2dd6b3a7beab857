"""One job over the hosts, each node's ranks under ``unhang run``, as a user types it on every node."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.watch.nodes.three_hosts import Host, Hosts
from tests.watch.signal_programs import RUN
from unhang.watch.nodes.transport import mailbox

LIMIT_S = 150.0
TOKEN = "three hosts know this word"
STEADY = """
import os, signal, time
from datetime import timedelta
import torch
import torch.distributed as dist
dist.init_process_group("gloo", timeout=timedelta(seconds=120))
rank, late, dies = dist.get_rank(), int(os.environ.get("LATE", "-1")), int(os.environ.get("DIES", "-1"))
odd = int(os.environ.get("ODD", "-1"))
slow = int(os.environ.get("SLOW", "-1"))
size, last = int(os.environ.get("FLOATS", "1000")), int(os.environ.get("STEPS", "100000"))
gradient = torch.ones(size)
def train():
    for step in range(last):
        if rank == late and os.path.exists(os.environ["STEPS_FILE"] + "late"):
            os.kill(os.getpid(), signal.SIGSTOP)
        if step == 100 and rank == dies:
            raise ValueError("shard 7 ends too early")
        dist.all_reduce(gradient)
        if step % 10 == 0:
            share(odd == rank)
        time.sleep(0.05)
        if rank == slow:
            augment()
        with open(os.environ["STEPS_FILE"] + str(rank), "w") as file:
            file.write(str(step))
def share(differs):
    dist.all_reduce(torch.ones(8, dtype=torch.int32 if differs else torch.float32))
def augment():
    until = time.monotonic() + 0.4
    while time.monotonic() < until:
        sum(range(1000))
train()
dist.destroy_process_group()
"""


@dataclass(slots=True)
class WatchedJob:
    """A running job; ``place`` lies on the disk that all hosts see."""

    hosts: Hosts
    place: Path
    program: Path
    environment: dict[str, str] = field(default_factory=dict)
    via: str = ""
    told: dict[int, int] = field(default_factory=dict)
    """The last step of each rank that could be read."""

    @classmethod
    def of(
        cls,
        hosts: Hosts,
        place: Path,
        program: Path | str,
        *,
        shared: bool,
        environment: Mapping[str, str] | None = None,
    ) -> WatchedJob:
        """``program``: a file, or its text. ``shared``: the watchers meet in a folder, else over the network."""
        place.mkdir(parents=True, exist_ok=True)
        if isinstance(program, str):
            (place / "train.py").write_text(program)
            program = place / "train.py"
        own = {"TRAIN_BACKEND": "gloo", "STEPS_FILE": f"{place}/step-", **(environment or {})}
        own |= {} if shared else {"UNHANG_TOKEN": TOKEN}
        return cls(hosts, place, program, own, str(place / "meet") if shared else "")

    def start(self, *options: str) -> None:
        """The same line on every node but for its number."""
        for rank, host in enumerate(self.hosts.all):
            torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={len(self.hosts.all)}"]
            torchrun += ["--nproc-per-node=1", f"--node-rank={rank}", "--master-addr=10.92.0.1", "--master-port=29500"]
            self.start_on(host, [*torchrun, str(self.program)], *options)

    def start_on(self, host: Host, command: list[str], *options: str) -> None:
        """``command`` under ``unhang run`` there."""
        via = ["--nodes-via", self.via] if self.via else []
        words = [*RUN, "--dir", str(self.place / "run"), *via, *options, "--", *command]
        host.start(words, self.log(host), environment=self.environment, cwd=self.place)

    def log(self, host: Host) -> Path:
        """What the terminal of that host shows."""
        return self.place / f"{host.name}.log"

    def printed(self, host: Host) -> str:
        """The same as text."""
        return self.log(host).read_text(errors="replace") if self.log(host).exists() else ""

    def said(self) -> str:
        """On all terminals, for a test that fails."""
        return "\n".join(f"== {host.name}\n{self.printed(host)}" for host in self.hosts.all)

    def folder(self, host: Host) -> Path:
        """Its run folder."""
        return self.place / "run" / host.name

    def verdict(self, host: Host) -> dict[str, Any] | None:
        """As it stands in its run folder."""
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.folder(host) / "verdict.json").read_bytes())
            return found
        return None

    def steps(self) -> int:
        """Of the slowest rank, in :data:`STEADY`."""
        for rank in range(len(self.hosts.all)):
            with suppress(OSError, ValueError):  # it may be empty for a moment, while the rank writes it
                self.told[rank] = int((self.place / f"step-{rank}").read_text())
        return min(self.told.values()) if len(self.told) == len(self.hosts.all) else 0

    def make_late(self) -> None:
        """Rank ``LATE`` of :data:`STEADY` stops at its next step."""
        (self.place / "step-late").touch()

    def wait_for(self, condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        """Until it holds."""
        deadline = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)

    def met(self, *, since_ns: int = 0) -> bool:
        """Whether the watcher of the first node has heard those of all others since then (monotonic), and over the
        network reaches them."""
        first, *others = self.hosts.all
        with suppress(OSError, ValueError):
            records = json.loads((self.folder(first) / "run.json").read_bytes())["records"]
            file = Path(f"/proc/{first.first}/root{records}/{mailbox.FOLDER}/news")
            news = msgspec.msgpack.decode(file.read_bytes(), type=mailbox.TransportState)
            heard = sum(digest.heard_ns >= since_ns for digest in news.digests)
            return len(others) <= min(heard, len(others) if self.via else len(news.answered))
        return False

    def wait_for_steps(self, steps: int) -> None:
        """Until every rank of :data:`STEADY` is there, and the watchers know of each other."""
        self.wait_for(lambda: self.steps() >= steps and self.met())

    def wait_for_verdict(self, host: Host, limit_s: float = LIMIT_S) -> dict[str, Any]:
        """Until one stands on that host's terminal."""
        self.wait_for(
            lambda: "re-read it: unhang diagnose" in self.printed(host) and self.verdict(host) is not None, limit_s
        )
        found = self.verdict(host)
        assert found is not None
        return found
