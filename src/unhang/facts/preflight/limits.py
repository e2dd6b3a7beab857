"""Limits of this machine that a job meets: shared memory, locked memory, open files, memory of the container."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """``/dev/shm``; bytes."""

    size: int
    free: int
