"""What the machine says: counters of the job's memory groups, the kernel's own lines, ``/dev/shm``.

The OOM killer leaves no trace in the process it ends. The counter of its control group grows in the same moment, and
nobody needs a right to read it; the kernel's log names the process, where we may read it.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from unhang.watch.job.job_ranks import JobRank
from unhang.watch.machine.control_groups import groups_of, memory_limit
from unhang.watch.machine.counters import KernelPaths, kernel_records, read_key_values

TOGETHER_S = 3.0
"""A process that ended so shortly before or after the counter grew was the one."""
FULL_SHARE = 0.01
KERNEL_BYTES, KERNEL_LINES = 4 << 20, 200
_HARDWARE_PATTERN = r"NVRM|SXid|fallen off the bus|mlx5|PCIe Bus Error|NETDEV_|blocked for more than|not responding"
_LINES_WHILE_ALIVE = re.compile(_HARDWARE_PATTERN, re.IGNORECASE)
_LINES_AFTER_DEATH = re.compile(rf"oom|Out of memory|Killed process|segfault|{_HARDWARE_PATTERN}", re.IGNORECASE)
"""Where a rank was killed, also what the kernel killed; that of other jobs says nothing about ranks that live."""


@dataclass(slots=True)
class OomCounter:
    """``oom_kill`` of one memory group. ``grew_s``: when it was last seen to have grown, seconds since the epoch."""

    name: str
    file: Path
    first: int
    now: int
    members: set[int] = field(default_factory=set)
    """Process ids of the ranks in it."""
    grew_s: float | None = None


class MemoryWatch:
    """Follows the counters of the ranks' memory groups from the moment each rank is first seen."""

    def __init__(self, places: KernelPaths | None = None) -> None:
        self._places = places or KernelPaths()
        self._counters: dict[Path, OomCounter] = {}
        self._known: set[int] = set()
        self._log_size = _size(self._places.kernel_log)
        self._began_us = time.monotonic_ns() // 1000

    def note(self, members: Mapping[int, JobRank]) -> None:
        """Read every counter: a small file for each group, mostly one for the whole job."""
        for member in members.values():
            if member.pid not in self._known and member.ended_ns is None:
                self._known.add(member.pid)
                self._join(member.pid)
        for counter in self._counters.values():
            now = _count(counter.file)
            if now is not None and now > counter.now:
                counter.now, counter.grew_s = now, time.time()

    def _join(self, pid: int) -> None:
        found = counter_of(pid, self._places)
        if found is None:
            return
        name, file = found
        count = _count(file)
        if count is not None:
            self._counters.setdefault(file, OomCounter(name, file, count, count)).members.add(pid)

    def lines(self, members: Mapping[int, JobRank]) -> bytes:
        """``machine/memory.log``: what speaks for a lack of memory behind the ends of ranks; mostly nothing."""
        ended = [member for member in members.values() if member.ended_ns is not None]
        if not ended:
            return b""
        self.note(members)
        told = [*self._counter_lines(ended), *self._shm_lines(ended)]
        return "".join(f"{line}\n" for line in told).encode()

    def kernel_lines(self, members: Mapping[int, JobRank]) -> bytes:
        """``machine/kernel.log``: the kernel's lines of this run that may matter."""
        ended = [member for member in members.values() if member.ended_ns is not None]
        worth = (
            _LINES_AFTER_DEATH if any(member.exit_code in (-9, -7, None) for member in ended) else _LINES_WHILE_ALIVE
        )
        lines = [*self._from_ring(worth), *self._from_file(worth)][-KERNEL_LINES:]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")

    def _counter_lines(self, ended: Iterable[JobRank]) -> Iterator[str]:
        killed = [member for member in ended if member.exit_code in (-signal.SIGKILL, None)]
        for counter in self._counters.values():
            if counter.grew_s is None:
                continue
            grown = f"oom_kill of memory group {counter.name} went from {counter.first} to {counter.now}"
            limit = memory_limit(counter.file.parent)
            grown += f" (limit {limit >> 20} MiB)" if limit is not None else ""
            victims = [
                m.pid
                for m in killed
                if m.pid in counter.members and abs((m.ended_s or 0.0) - counter.grew_s) <= TOGETHER_S
            ]
            for pid in victims[: counter.now - counter.first]:
                yield f"{_time(counter.grew_s)} {grown}; process {pid} was killed then"
            if not victims:
                yield f"{_time(counter.grew_s)} {grown}"

    def _shm_lines(self, ended: Iterable[JobRank]) -> Iterator[str]:
        broken = [member for member in ended if member.exit_code == -signal.SIGBUS]
        with suppress(OSError):
            told = os.statvfs(self._places.shm)
            if broken and told.f_blocks and told.f_bavail <= FULL_SHARE * told.f_blocks:
                size = told.f_blocks * told.f_frsize >> 20
                yield f"{_time(time.time())} /dev/shm is full (size {size} MiB); process {broken[0].pid} got SIGBUS"

    def _from_ring(self, worth: re.Pattern[str]) -> Iterator[str]:
        """The kernel's ring buffer since we began, as ``dmesg`` prints it."""
        for record in _ring(self._places.kernel):
            head, _, text = record.partition(";")
            fields = head.split(",")
            if len(fields) < 3 or not fields[2].isdigit() or not worth.search(text):
                continue
            stamp_us = int(fields[2])
            if stamp_us >= self._began_us - 1_000_000:
                yield f"[{stamp_us / 1e6:12.6f}] {text}"

    def _from_file(self, worth: re.Pattern[str]) -> Iterator[str]:
        """What was added to the kernel's log file since we began."""
        with suppress(OSError), self._places.kernel_log.open("rb") as file:
            file.seek(self._log_size if _size(self._places.kernel_log) >= self._log_size else 0)
            for line in file.read(KERNEL_BYTES).decode("utf-8", "replace").splitlines():
                if worth.search(line):
                    yield line


def counter_of(pid: int, places: KernelPaths) -> tuple[str, Path] | None:
    """(name, file) of the counter of a process's memory group, the nearest one above it that can be read."""
    for path, folder in groups_of(pid, places):
        for name in ("memory.events", "memory.oom_control"):
            if _count(folder / name) is not None:
                return path, folder / name
    whole = places.proc / "vmstat"
    return ("of this machine", whole) if _count(whole) is not None else None


def _count(file: Path) -> int | None:
    return read_key_values(file).get("oom_kill")


def _ring(path: Path) -> list[str]:
    """Lines of ``/dev/kmsg``; none where nobody may read it."""
    with suppress(OSError):
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            lines = "".join(kernel_records(number)).splitlines()
        finally:
            os.close(number)
        return [line for line in lines if not line.startswith(" ")]
    return []


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
