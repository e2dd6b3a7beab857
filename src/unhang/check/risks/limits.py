"""Risks in the limits of this machine: shared and locked memory, open files, memory that is left, tracing."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.environment import MemoryLimit, ProcessLimits, RdmaDevices, SharedMemory, Tracing
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.findings import Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import threshold, whole_threshold

ROWS = RiskRows("limits")
ENOUGH_SHARED_MEMORY = whole_threshold("limits.enough_shared_memory")
CONTAINER_DEFAULT = whole_threshold("limits.container_default")
ENOUGH_LOCKED_MEMORY = whole_threshold("limits.enough_locked_memory")
FEW_FILES = whole_threshold("limits.few_files")
VERY_FEW_FILES = whole_threshold("limits.very_few_files")
MIN_FREE = whole_threshold("limits.min_free")
MIN_SHARE = threshold("limits.min_share")
NOBODY = 3
"""Of Yama's ``ptrace_scope``: not even root may look into a process."""


def shared_memory(here: NodeInspection) -> Iterator[Answer]:
    """A worker that finds no room in ``/dev/shm`` dies of a bus error, or NCCL fails; the others wait for that rank."""
    result = here.result(SharedMemory)
    yield from ROWS.gap("shared-memory", result)
    if result.found is None:
        return
    size = result.found.size
    if size >= ENOUGH_SHARED_MEMORY:
        yield ROWS.fine("shared-memory", size=size >> 20)
        return
    severity = Severity.STOPS if size <= CONTAINER_DEFAULT else Severity.SLOWS
    yield ROWS.risk("shared-memory", {"size": size >> 20}, severity=severity)


def locked_memory(here: NodeInspection) -> Iterator[Answer]:
    """RDMA locks the memory it sends from; where that fails (``ibv_reg_mr``) the others wait for that rank."""
    result, devices = here.result(ProcessLimits), here.found(RdmaDevices)
    yield from ROWS.gap("locked-memory", result)
    if result.found is None or devices is None or not devices.names:
        return
    limit = result.found.locked_memory
    if limit is None or limit >= ENOUGH_LOCKED_MEMORY:
        yield ROWS.fine("locked-memory")
    else:
        yield ROWS.risk("locked-memory", {"size": limit >> 10})


def open_files(here: NodeInspection) -> Iterator[Answer]:
    """Tensors of data-loader workers are file descriptors; a worker that gets none more takes its rank along."""
    limits = here.found(ProcessLimits)
    if limits is None:
        return
    count = limits.open_files
    if count is None or count > FEW_FILES:
        yield ROWS.fine("open-files")
        return
    severity = Severity.STOPS if count <= VERY_FEW_FILES else Severity.NOTE
    yield ROWS.risk("open-files", {"count": count}, severity=severity)


def memory_limit(here: NodeInspection) -> Iterator[Answer]:
    """The kernel kills the process that asks last, without a word in its log; the others wait for it."""
    result = here.result(MemoryLimit)
    yield from ROWS.gap("memory-limit", result)
    if result.found is None:
        return
    limit, free = result.found.limit, result.found.limit - result.found.used
    values = {"free": round(free / 2**30, 1), "limit": round(limit / 2**30, 1)}
    if free >= MIN_FREE and free >= MIN_SHARE * limit:
        yield ROWS.fine("memory-limit", **values)
    else:
        yield ROWS.risk("memory-limit", {**values, "group": result.found.group or "memory"})


def tracing(here: NodeInspection) -> Iterator[Answer]:
    """Yama lets only a parent look into a process: stacks of a job started without ``unhang run`` are not seen."""
    result = here.result(Tracing)
    yield from ROWS.gap("tracing", result)
    if result.found is None:
        return
    scope = result.found.scope
    if scope == 0 or (result.found.may_trace and scope < NOBODY):
        yield ROWS.fine("tracing")
    else:
        yield ROWS.risk("tracing", {"scope": scope})


RISKS = asked_of_a_node("limits", shared_memory, locked_memory, open_files, memory_limit, tracing)
