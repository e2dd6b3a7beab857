"""Registrations: every Python process that was started with RANK set."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(slots=True)
class ProcessRegistration:
    """A Python process that was started with RANK set. ``started_s`` is wall clock; -1 where a number is not set.

    ``entered_by`` says how we came in:
    ``path`` (start-up hook), ``site`` (unhang.pth), ``torch`` (entry point of earlier installations), or ``init`` (it
    was told its rank only when it armed).
    """

    pid: int
    ppid: int
    rank: int
    local_rank: int
    world_size: int
    attempt: int
    host: str
    argv0: str
    started_s: float
    entered_by: str = "path"


_MAX_BYTES = 65536
NCCL_LOG_FOLDER = "nccl"
"""Where ranks let NCCL write its lines of the start, beside their records."""


def host_name() -> str:
    """What this machine is called in evidence; containers that share a host name are told apart by the variable."""
    return os.environ.get("UNHANG_NODE_NAME") or os.uname().nodename


def read_registration(path: Path) -> ProcessRegistration | None:
    """One registration; None when it is missing, torn or not one."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MAX_BYTES))
        return ProcessRegistration(
            **{name.name: found[name.name] for name in fields(ProcessRegistration) if name.name in found}
        )
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def read_registrations(folder: Path) -> list[ProcessRegistration]:
    """Every readable registration of a records folder, oldest first."""
    try:
        paths = sorted((folder / "births").glob("*.json"))
    except OSError:
        return []
    return sorted(filter(None, map(read_registration, paths)), key=lambda registration: registration.started_s)


def read_internal_errors(folder: Path) -> dict[int, list[str]]:
    """What went wrong with us in the processes of a records folder: lines by pid."""
    troubles: dict[int, list[str]] = {}
    with suppress(OSError):
        for path in sorted((folder / "births").glob("*.log")):
            pid = path.stem.rpartition(".")[2]
            with suppress(OSError), path.open("rb") as file:
                lines = file.read(_MAX_BYTES).decode("utf-8", "replace").splitlines()
                troubles.setdefault(int(pid) if pid.isdecimal() else -1, []).extend(lines)
    return troubles
