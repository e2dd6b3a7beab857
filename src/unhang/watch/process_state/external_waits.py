"""What a process waits for outside of the job, as ``/proc`` shows it (Linux): a peer, a pipe, a file lock, a
child that ended or is stopped.

Passive: files of ``/proc`` are read, nothing is attached, and every answer may be missing.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from stat import S_ISREG

from unhang.knowledge.activities import activity_table
from unhang.watch.process_state.proc_processes import (
    PROC,
    children_of,
    read_process,
    started_s,
    stat_fields,
    state_of,
    text_of,
)
from unhang.watch.process_state.sockets import connections_by_inode
from unhang.wire.documents.bundle import EndedChild, ExternalWaits, HeldLock, LiveChild

MAX_TOLD, MAX_CHILDREN, MAX_DESCRIPTORS = 8, 32, 1024
_STANDARD = 2
"""Descriptors up to here are the job's input and output."""
_POLLED = struct.Struct("ihh")
_MAX_POLLED = 16
_WAITS_FOR_PROGRAM = "/subprocess.py"
_LOCK_FILES = (".lock", ".lck", ".lockfile")
_READ_WRITE = {"x86_64": ("0", "1"), "aarch64": ("63", "64")}.get(os.uname().machine, ())
"""Numbers of these two system calls: of any other a small first argument may be no descriptor."""


def find_external_waits(pid: int, stack: str = "") -> ExternalWaits:
    """What the process waits for outside of the job.

    ``stack``: where it stood. Who asks for a lock again and again stands in no line for it: then the lock files that
    others hold are told too, where the stack stands in a library of such locks, and files that it has open itself; and
    its children, where it waits for a program that it started.
    """
    asks_again = any(file in stack for file in _lock_libraries())
    children = children_of(pid)[:MAX_CHILDREN]
    pipe, ends = _pipe(pid, children)
    awaited = children if _WAITS_FOR_PROGRAM in stack else ends
    told = [one for one in children if one in awaited or state_of(one) == "T"]
    return ExternalWaits(
        tuple(_peers(pid)[:MAX_TOLD]),
        tuple(islice(_locks(pid, asks_again=asks_again), MAX_TOLD)),
        tuple(islice(_ended_children(pid), MAX_TOLD)),
        tuple(LiveChild(one, state_of(one), _command(one), _pipe(one, (pid,))[0]) for one in told[:MAX_TOLD]),
        pipe,
        ends,
    )


# ---------------------------------------------------------------------------------------------------
# sockets: that of the call in which the main thread sleeps


def _peers(pid: int) -> list[str]:
    links = (_link(pid, descriptor) for descriptor in _descriptors(pid) if descriptor > _STANDARD)
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    known = connections_by_inode(pid) if inodes else {}
    return sorted({f"{one.peer[0]}:{one.peer[1]}" for inode, one in known.items() if inode in inodes and one.peer[1]})


def _descriptors(pid: int) -> Iterator[int]:
    """Descriptors of the system call of the main thread: its first argument, or those of the list it polls."""
    words = text_of(PROC / str(pid) / "syscall").split()
    if len(words) < 4 or not words[0].isdigit():
        return
    first, second = int(words[1], 16), int(words[2], 16)
    if words[0] in _READ_WRITE or _STANDARD < first < 1 << 20:
        yield first
    elif 0 < second <= _MAX_POLLED:
        with suppress(OSError, ValueError, OverflowError), (PROC / str(pid) / "mem").open("rb", buffering=0) as memory:
            memory.seek(first)
            raw = memory.read(second * _POLLED.size)
            yield from (one for one, _, _ in _POLLED.iter_unpack(raw[: len(raw) // _POLLED.size * _POLLED.size]))


def _link(pid: int, descriptor: int | str) -> str:
    with suppress(OSError):
        return str((PROC / str(pid) / "fd" / str(descriptor)).readlink())
    return ""


# ---------------------------------------------------------------------------------------------------
# pipes


def _pipe(pid: int, others: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """(``read`` or ``write``, those of ``others`` that have the other end) of the pipe in which the main thread sleeps;
    empty where it sleeps in none."""
    for descriptor in _descriptors(pid):
        link = _link(pid, descriptor)
        if link.startswith("pipe:["):
            way = _way(pid, descriptor)
            return way, tuple(one for one in others if any(way != _way(one, end) for end in _ends(one, link)))
    return "", ()


def _ends(pid: int, link: str) -> Iterator[str]:
    yield from (one.name for one in _folders(PROC / str(pid) / "fd")[:MAX_DESCRIPTORS] if _link(pid, one.name) == link)


def _way(pid: int, descriptor: int | str) -> str:
    flags = text_of(PROC / str(pid) / "fdinfo" / str(descriptor)).partition("flags:")[2].split()[:1]
    return "write" if flags and int(flags[0], 8) & os.O_ACCMODE == os.O_WRONLY else "read"


# ---------------------------------------------------------------------------------------------------
# file locks


def _lock_libraries() -> tuple[str, ...]:
    return tuple(file for row in activity_table().rows if row.what == "file-lock" for file in row.files)


def _locks(pid: int, *, asks_again: bool) -> Iterator[HeldLock]:
    """The lock that the kernel lets the process wait for; else those of others to write a file that it has open itself,
    and lock files that others hold."""
    held: list[tuple[str, int, str, bool]] = []
    for line in text_of(PROC / "locks").splitlines():
        words = line.replace("-> ", "").split()
        if len(words) < 6 or not words[4].isdigit():
            continue
        number, holder, inode = words[0], int(words[4]), words[5].rpartition(":")[2]
        if "->" not in line:
            held.append((number, holder, inode, words[3] == "WRITE"))
        elif holder == pid:
            yield from (_held(one[1], one[2]) for one in held if one[0] == number)
            return
    opened = set(_inodes(pid)) if held else set()
    to_write = {(holder, inode) for _, holder, inode, writes in held if writes and inode in opened}
    for holder, inode in dict.fromkeys((holder, inode) for _, holder, inode, _ in held):
        if holder in (pid, os.getpid()) or not (asks_again or (holder, inode) in to_write):
            continue
        told = _held(holder, inode)
        if (holder, inode) in to_write or told.path.endswith(_LOCK_FILES):
            yield told


def _inodes(pid: int) -> Iterator[str]:
    """Of the files that it has open, but for the job's input and output."""
    for descriptor in _folders(PROC / str(pid) / "fd"):
        with suppress(OSError):
            told = descriptor.stat()
            if int(descriptor.name) > _STANDARD and S_ISREG(told.st_mode):
                yield str(told.st_ino)


def _held(holder: int, inode: str) -> HeldLock:
    process = read_process(holder)
    path = _path_of(holder, inode)
    if process is None:
        return HeldLock(path, holder)
    return HeldLock(path, holder, _program(process.command), started_s(process))


def _command(pid: int) -> str:
    process = read_process(pid)
    return _program(process.command) if process is not None else ""


def _program(command: tuple[str, ...]) -> str:
    """The program and its script, without arguments: these may hold secrets."""
    script = (word for word in command[1:2] if not word.startswith("-"))
    return " ".join(word.rpartition("/")[2] for word in (*command[:1], *script))[:200]


def _path_of(pid: int, inode: str) -> str:
    with suppress(OSError):
        for descriptor in (PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                if str(descriptor.stat().st_ino) == inode:
                    return str(descriptor.readlink())
    return ""


# ---------------------------------------------------------------------------------------------------
# children


def _ended_children(pid: int) -> Iterator[EndedChild]:
    """Children that have ended and that the process has not asked for; with the wait status where we may see it."""
    for task in _folders(PROC / str(pid) / "task"):
        for child in text_of(task / "children").split():
            fields = stat_fields(child)
            if fields[:1] == ["Z"] and len(fields) > 49:
                status = int(fields[49])
                yield EndedChild(int(child), status & 0x7F, status >> 8)


def _folders(folder: Path) -> list[Path]:
    with suppress(OSError):
        return list(folder.iterdir())
    return []
