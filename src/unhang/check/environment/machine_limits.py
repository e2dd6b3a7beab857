"""Limits of this machine that a job meets: shared memory, locked memory, open files, memory, looking at processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """``/dev/shm``; bytes."""

    size: int
    free: int


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of a process started here; None is unlimited. Locked memory in bytes."""

    locked_memory: int | None
    open_files: int | None


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Memory a process here may use, in bytes: the smallest of the machine's and its memory groups'."""

    limit: int
    used: int
    group: str
    """Path of the memory group that sets it; empty for the machine itself."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """Whether one process of a user may look at the stacks of another: Yama's scope and our own capability."""

    scope: int
    may_trace: bool


@dataclass(frozen=True, slots=True)
class RdmaDevices:
    """InfiniBand and RoCE devices by name (``mlx5_0``)."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cores:
    """Processor cores the job may use: the machine's, or fewer where a control group says so."""

    count: int
