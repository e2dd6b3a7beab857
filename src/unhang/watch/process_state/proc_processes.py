"""The processes of this machine as ``/proc`` shows them. Nothing in here disturbs a process."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
ENVIRONMENT_BYTES = 4 << 20
_PYTHONS = ("python", "pypy")
_GROUP_THREADS = ("pt_gloo", "gloo_", "pt_nccl", "nccl")


@dataclass(frozen=True, slots=True)
class Process:
    """One process. ``environment`` is None where we may not read it."""

    pid: int
    parent: int
    state: str
    started_ticks: int
    uid: int
    command: tuple[str, ...]
    environment: Mapping[str, str] | None
    program: str = ""
    """The file that runs in it (``/proc/PID/exe``); empty where we may not see it."""

    @property
    def is_python(self) -> bool:
        """An interpreter runs in it. A process may give itself another title, so that its command tells only where its
        program cannot be seen."""
        told = self.program or (self.command[0] if self.command else "")
        return told.rsplit("/", 1)[-1].startswith(_PYTHONS)

    @property
    def owner(self) -> str:
        """Name of its user."""
        with suppress(KeyError):
            return pwd.getpwuid(self.uid).pw_name
        return str(self.uid)


@dataclass(slots=True)
class ProcessTable:
    """All processes at one moment."""

    processes: dict[int, Process] = field(default_factory=dict)

    @classmethod
    def snapshot(cls) -> ProcessTable:
        """Every process, read once."""
        found = (read_process(int(path.name)) for path in PROC.iterdir() if path.name.isdigit())
        return cls({process.pid: process for process in found if process is not None})

    def ancestors(self, pid: int) -> Iterator[Process]:
        """Parent, grandparent, … as far as they are seen."""
        passed = {pid}
        process = self.processes.get(pid)
        while process is not None and process.parent not in passed:
            passed.add(process.parent)
            process = self.processes.get(process.parent)
            if process is not None:
                yield process

    def descendants(self, pid: int) -> tuple[Process, ...]:
        """Children, grandchildren, …, oldest first."""
        children: dict[int, list[Process]] = {}
        for process in self.processes.values():
            children.setdefault(process.parent, []).append(process)
        found: dict[int, Process] = {}
        wave = [pid]
        while wave:
            below = [p for parent in wave for p in children.get(parent, ()) if p.pid not in found and p.pid != pid]
            found |= {p.pid: p for p in below}
            wave = [p.pid for p in below]
        return tuple(sorted(found.values(), key=lambda p: (p.started_ticks, p.pid)))

    def children(self, pid: int) -> tuple[Process, ...]:
        """Direct children, oldest first."""
        mine = (p for p in self.processes.values() if p.parent == pid)
        return tuple(sorted(mine, key=lambda p: (p.started_ticks, p.pid)))


def stat_fields(pid: int | str, *, proc: Path = PROC) -> list[str]:
    """Fields of ``/proc/PID/stat`` from the state on (the command before them may hold anything); none where it is
    gone."""
    return text_of(proc / str(pid) / "stat").rpartition(")")[2].split()


MAX_BYTES = 8 << 20
"""Of one file: a table of connections on a busy machine may be long, and the watcher reads it between two ticks."""


def text_of(path: Path) -> str:
    """What a small file holds, mostly of ``/proc`` or ``/sys``; empty where it is gone, or may not be read."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(MAX_BYTES).decode("utf-8", "replace")
    return ""


def state_of(pid: int | str, *, proc: Path = PROC) -> str:
    """Its letter (``R``, ``S``, ``D``, ``T``, ``Z``); empty where it is gone."""
    return next(iter(stat_fields(pid, proc=proc)), "")


def lives(pid: int) -> bool:
    """It is there, and has not ended."""
    return state_of(pid) not in ("", "Z", "X")


def children_of(pid: int) -> tuple[int, ...]:
    """Live direct children of every thread of ``pid``."""
    found: list[int] = []
    with suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            found += [int(word) for word in text_of(task / "children").split() if word.isdigit()]
    return tuple(sorted(found))


def read_process(pid: int) -> Process | None:
    """One process, or None when it is gone or a zombie."""
    folder = PROC / str(pid)
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
        uid = folder.stat().st_uid
        status = (folder / "status").read_text(errors="replace")
    except OSError:
        return None
    fields = stat_fields(pid)
    if not fields or fields[0] in "ZX":
        return None
    for line in status.splitlines():
        if line.startswith("Uid:"):  # the folder belongs to root where a process may not be dumped
            uid = int(line.split()[1])
    command = tuple(word.decode(errors="replace") for word in words if word)
    environment = read_environment(pid)
    program = ""
    with suppress(OSError):
        program = str((folder / "exe").readlink()).removesuffix(" (deleted)")
    return Process(pid, int(fields[1]), fields[0], int(fields[19]), uid, command, environment, program)


def read_environment(pid: int) -> Mapping[str, str] | None:
    """The environment the process was started with; None where we may not read it."""
    try:
        with (PROC / str(pid) / "environ").open("rb") as file:
            raw = file.read(ENVIRONMENT_BYTES)
    except OSError:
        return None
    pairs = (part.split(b"=", 1) for part in raw.split(b"\0") if b"=" in part)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, value in pairs}


def pid_in_namespace(pid: int) -> int | None:
    """The number the process has in its own namespace, where that is not ours."""
    for line in text_of(PROC / str(pid) / "status").splitlines():
        if line.startswith("NSpid:"):
            numbers = line.split()[1:]
            return int(numbers[-1]) if len(numbers) > 1 else None
    return None


def has_ended(pid: int) -> bool:
    """It is a zombie: over, and not yet reaped."""
    return state_of(pid) in ("Z", "X")


def has_mapped(pid: int, library: str) -> bool:
    """Whether ``library`` (part of a file name) is loaded in the process; False where its maps may not be read."""
    return library in text_of(PROC / str(pid) / "maps")


def has_group_threads(pid: int) -> bool:
    """Whether a thread of a process group runs in it. Forked loader workers have none, and anybody may see names."""
    return any(name.startswith(_GROUP_THREADS) for name in _thread_names(pid))


def backend_of(pid: int) -> str:
    """``nccl`` or ``gloo`` as the names of its threads tell; empty where they do not."""
    names = _thread_names(pid)
    if any(name.startswith(("pt_nccl", "nccl")) for name in names):
        return "nccl"
    return "gloo" if any(name.startswith(("pt_gloo", "gloo")) for name in names) else ""


def _thread_names(pid: int) -> set[str]:
    names = set()
    with suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            names.add(text_of(task / "comm").split("\n")[0])
    return names


_VERSION = re.compile(r"__version__ = '([\w.+-]{1,60})'")


def torch_version_of(pid: int) -> str:
    """Version of the torch that is loaded in the process; empty where it is unknown."""
    found = re.search(r"(/\S+/torch)/lib/libtorch\S*\.so", text_of(PROC / str(pid) / "maps"))
    if found is not None:
        with suppress(OSError), path_in_container(pid, f"{found[1]}/version.py").open("rb") as file:
            version = _VERSION.search(file.read(4096).decode(errors="replace"))
            return version[1] if version is not None else ""
    return ""


def path_in_container(pid: int, path: str | Path) -> Path:
    """``path`` as we must open it: through ``/proc/PID/root`` where the process lives in another file system."""
    with suppress(OSError):
        if (PROC / str(pid) / "ns" / "mnt").readlink() != (PROC / "self" / "ns" / "mnt").readlink():
            return PROC / str(pid) / "root" / str(path).lstrip("/")
    return Path(path)


def started_s(process: Process) -> float | None:
    """When the process started, seconds since the epoch."""
    for line in text_of(PROC / "stat").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + process.started_ticks / os.sysconf("SC_CLK_TCK")
    return None
