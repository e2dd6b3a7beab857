"""Which process listens on which port: we speak only to servers that belong to the job."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
_LISTENS = "0A"


def listening_ports(pids: Iterable[int], *, proc: Path = PROC) -> dict[int, int]:
    """Ports on which the given processes listen, and which of them does: ``{port: pid}``."""
    found: dict[int, int] = {}
    for pid in pids:
        inodes = _socket_inodes(pid, proc)
        for port, inode in _listeners(pid, proc) if inodes else ():
            if inode in inodes:
                found.setdefault(port, pid)
    return found


def _socket_inodes(pid: int, proc: Path) -> set[str]:
    found = set()
    with suppress(OSError):
        for descriptor in (proc / str(pid) / "fd").iterdir():
            with suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def _listeners(pid: int, proc: Path) -> list[tuple[int, str]]:
    found = []
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (proc / str(pid) / "net" / name).read_text().splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[3] == _LISTENS:
                    found.append((int(fields[1].rpartition(":")[2], 16), fields[9]))
    return found
