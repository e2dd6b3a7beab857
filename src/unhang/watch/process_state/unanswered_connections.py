"""Connections a process tries to open and nobody answers: what ``/proc`` shows of its sockets (Linux)."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_ORDER = sys.byteorder
MAX_BYTES, MAX_PEERS = 16 << 20, 64
_OPEN, _SYN_SENT = "01", "02"
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


def unanswered_addresses(pid: int, *, proc: Path = PROC) -> frozenset[tuple[str, int]]:
    """(address, port) of every TCP connection of ``pid`` that was asked for and not answered yet.

    One that is just being made looks the same: ask twice. Empty where the process may not be read.
    """
    asked = (one.peer for one in connections(pid, proc=proc) if one.state == _SYN_SENT)
    return frozenset(islice(dict.fromkeys(asked), MAX_PEERS))


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
