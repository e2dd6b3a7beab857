"""Limits of this machine: shared memory, locked memory, open files, memory of the container, looking at processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from unhang.check.environment.environment import Cores, MemoryLimit, ProcessLimits, RdmaDevices, SharedMemory, Tracing
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge import numbers
from unhang.program.launch.planned_job import PlannedJob

NAME = "limits"
LIMIT_S = 5.0
_ROW = re.compile(r"^Max (?P<what>[a-z ]+?)\s{2,}(?P<soft>\S+)", re.MULTILINE)
_CAP_SYS_PTRACE = 19
_GROUPS = "/sys/fs/cgroup"
_NO_LIMIT = 1 << 60  # cgroup v1 writes about 2^63 where nothing is set


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:  # noqa: ARG001 - every check takes both
    """Limits of memory, processes and tracing that hold for the job; cores and RDMA devices."""
    yield SharedMemory, _shared_memory(machine)
    yield ProcessLimits, _process_limits(machine)
    yield MemoryLimit, _memory(machine)
    yield Tracing, _tracing(machine)
    yield Cores, _cores(machine)
    devices = machine.entries("/sys/class/infiniband")
    yield RdmaDevices, InspectionResult(RdmaDevices(devices.found or ()), devices.because)


def _shared_memory(machine: Machine) -> InspectionResult[SharedMemory]:
    space = machine.space("/dev/shm")
    if space.found is None:
        return InspectionResult(because=space.because)
    return InspectionResult(SharedMemory(space.found.size))


def _process_limits(machine: Machine) -> InspectionResult[ProcessLimits]:
    text = machine.read("/proc/self/limits")
    if text.found is None:
        return InspectionResult(because=text.because)
    rows = {row["what"]: row["soft"] for row in _ROW.finditer(text.found)}
    locked, files = rows.get("locked memory"), rows.get("open files")
    if locked is None or files is None:
        return InspectionResult()
    return InspectionResult(ProcessLimits(_amount(locked), _amount(files)))


def _amount(word: str | None) -> int | None:
    number = numbers.integer((word or "").strip())
    return number if number is not None and number >= 0 else None


def _memory(machine: Machine) -> InspectionResult[MemoryLimit]:
    """The tightest of the machine and of every memory group above us (cgroup v2, then v1)."""
    known = dict(re.findall(r"^(\w+):\s+(\d+) kB", machine.text("/proc/meminfo"), re.MULTILINE))
    total, free = _amount(known.get("MemTotal")), _amount(known.get("MemAvailable")) or 0
    if total is None:
        return InspectionResult()
    limits = [MemoryLimit(total * 1024, (total - free) * 1024, "")]
    own = machine.text("/proc/self/cgroup")
    for folder, limit_file, used_file in _group_folders(own):
        limit = _amount(machine.text(f"{folder}/{limit_file}"))
        used = _amount(machine.text(f"{folder}/{used_file}"))
        if limit is not None and limit < _NO_LIMIT:
            limits.append(MemoryLimit(limit, used or 0, folder))
    return InspectionResult(min(limits, key=lambda one: one.limit))


def _group_folders(own: str) -> Iterator[tuple[str, str, str]]:
    """Every folder from our group up to the root: a parent's limit binds as well. In a container the root is ours."""
    for line in own.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        parts = [part for part in path.split("/") if part and part != ".."]
        if number == "0":
            root, files = _GROUPS, ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            root, files = f"{_GROUPS}/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        for count in range(len(parts), -1, -1):
            yield "/".join([root, *parts[:count]]), *files


def _cores(machine: Machine) -> InspectionResult[Cores]:
    """Cores in ``/proc/cpuinfo``, less where ``cpu.max`` (cgroup v2) allows less."""
    count = len(re.findall(r"^processor\s*:", machine.text("/proc/cpuinfo"), re.MULTILINE))
    for line in machine.text("/proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            quota = machine.text(f"{_GROUPS}{line[3:].rstrip('/')}/cpu.max").split()
            allowed, period = (*map(_amount, quota), None, None)[:2]
            if allowed is not None and period:
                count = min(count, max(1, allowed // period))
    return InspectionResult(Cores(count)) if count else InspectionResult()


def _tracing(machine: Machine) -> InspectionResult[Tracing]:
    scope = machine.read("/proc/sys/kernel/yama/ptrace_scope")
    status = re.search(r"^CapEff:\s+([0-9a-f]+)", machine.text("/proc/self/status"), re.MULTILINE)
    if scope.because is not None:
        return InspectionResult(because=scope.because)
    may = status is not None and bool(int(status[1], 16) >> _CAP_SYS_PTRACE & 1)
    # no such file: the kernel has no Yama, and users may look at their own
    return InspectionResult(Tracing(_amount(scope.found) or 0, may))
