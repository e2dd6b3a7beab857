"""The TCP sockets of a process, as ``/proc`` shows them (Linux): what nobody answers, what piles up, who listens."""

from __future__ import annotations

import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from unhang.watch.process_state.proc_processes import PROC

_ORDER = sys.byteorder
MAX_BYTES, MAX_PEERS = 16 << 20, 64
_OPEN, _SYN_SENT, _LISTENS = "01", "02", "0A"
EVERY_S = 0.1
MOSTLY = 0.5
MIN_TIMES = 5
"""Fewer samples of the queues tell nothing."""
MAX_WAYS = 64

AddressPair = tuple[str, str]
"""(own address, the other one's)."""
_SOCKET = re.compile(r"^socket:\[(\d+)\]$")


class Connection(NamedTuple):
    """Addresses with ports; ``state`` as the kernel prints it; ``unsent``: bytes that the other side has not taken."""

    own: tuple[str, int]
    peer: tuple[str, int]
    state: str
    unsent: int

    @property
    def open(self) -> bool:
        """Both sides have agreed to it."""
        return self.state == _OPEN


def unanswered_addresses(pid: int) -> frozenset[tuple[str, int]]:
    """(address, port) of every TCP connection of ``pid`` that was asked for and not answered yet.

    One that is just being made looks the same: ask twice. Empty where the process may not be read.
    """
    asked = (one.peer for one in connections(pid) if one.state == _SYN_SENT)
    return frozenset(islice(dict.fromkeys(asked), MAX_PEERS))


def listening_ports(pids: Iterable[int]) -> dict[int, int]:
    """Ports on which the given processes listen, and which of them does: ``{port: pid}``. We speak only to servers that
    belong to the job."""
    found: dict[int, int] = {}
    for pid in pids:
        for one in connections(pid):
            if one.state == _LISTENS:
                found.setdefault(one.own[1], pid)
    return found


def connections(pid: int, *, proc: Path = PROC) -> Iterator[Connection]:
    """The TCP connections of ``pid``; none where the process may not be read."""
    yield from connections_by_inode(pid, proc=proc).values()


def connections_by_inode(pid: int, *, proc: Path = PROC) -> dict[str, Connection]:
    """As :func:`connections`, by the number of their socket."""
    own = _inodes(proc / str(pid) / "fd")
    found: dict[str, Connection] = {}
    for table in ("tcp", "tcp6") if own else ():
        with suppress(OSError), (proc / str(pid) / "net" / table).open(encoding="ascii", errors="replace") as file:
            for line in file.read(MAX_BYTES).splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[9] in own:
                    unsent = int(fields[4].partition(":")[0], 16)
                    found[fields[9]] = Connection(_peer(fields[1]), _peer(fields[2]), fields[3], unsent)
    return found


def _inodes(folder: Path) -> frozenset[str]:
    found = set()
    with suppress(OSError):
        for entry in folder.iterdir():
            with suppress(OSError):
                match = _SOCKET.match(str(entry.readlink()))
                if match is not None:
                    found.add(match[1])
    return frozenset(found)


def _peer(text: str) -> tuple[str, int]:
    """``0101520A:7530`` as the kernel prints it: 32-bit words in the byte order of the machine."""
    digits, _, port = text.partition(":")
    words = [int(digits[at : at + 8], 16).to_bytes(4, _ORDER) for at in range(0, len(digits), 8)]
    raw = b"".join(words)
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    address = socket.inet_ntop(family, raw)
    return address.removeprefix("::ffff:"), int(port, 16)


@dataclass(slots=True)
class SendQueues:
    """Samples the connections of ``pids`` (by rank) again and again. Addresses of the machine itself do not count."""

    pids: Mapping[int, int]
    proc: Path = PROC
    times: int = 0
    _full: dict[int, Counter[AddressPair]] = field(default_factory=dict)
    _own: dict[int, set[str]] = field(default_factory=dict)

    def watch(self, seconds: float) -> None:
        """Sample for so long."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            self.sample()
            time.sleep(min(EVERY_S, max(0.0, left_s)))

    def sample(self) -> None:
        """Read the queues of all connections once."""
        self.times += 1
        for rank, pid in self.pids.items():
            found = [one for one in connections(pid, proc=self.proc) if one.open and one.own[0] != one.peer[0]]
            self._own.setdefault(rank, set()).update(one.own[0] for one in found)
            self._full.setdefault(rank, Counter()).update(
                {(one.own[0], one.peer[0]) for one in found if one.unsent > 0}
            )

    def addresses(self, rank: int) -> list[str]:
        """Of this rank, towards other machines."""
        return sorted(self._own.get(rank, ()))[:MAX_WAYS]

    def piled_up(self, rank: int) -> list[str]:
        """``OWN>OTHER``: where something waited to be sent, or to be taken, at most of the samples."""
        if self.times < MIN_TIMES:
            return []
        counts = self._full.get(rank, Counter[AddressPair]())
        return sorted(f"{own}>{peer}" for (own, peer), n in counts.items() if n >= MOSTLY * self.times)[:MAX_WAYS]
