"""Shared memory of a container is too small.

What happens: data-loader workers hand batches over through ``/dev/shm``, and NCCL moves data between GPUs of one
machine through it when they cannot reach each other directly. A container gets 64 MB unless somebody asks for more.

Why it hangs: a worker that finds no room dies with a bus error, or NCCL fails on one rank; the other ranks wait for it.

Example: ``docker run`` without ``--shm-size``; a Kubernetes pod without an ``emptyDir`` of medium ``Memory``.

Fix: ``--shm-size=16g`` or ``--ipc=host``; in Kubernetes mount ``emptyDir: {medium: Memory}`` at ``/dev/shm``.

Certain when: never before the job runs; how much it needs depends on batch size and workers.

Possible when: less than 1 GB is there.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.machine_limits import SharedMemory
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.thresholds import whole_threshold
from unhang.sentences import say

CHECK = "limits"
ENOUGH = whole_threshold("shared_memory.enough")
CONTAINER_DEFAULT = whole_threshold("shared_memory.container_default")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the size of ``/dev/shm``."""
    result = here.result(SharedMemory)
    gap = could_not(CHECK, say("How large shared memory is"), result)
    if gap is not None:
        yield gap
    if result.found is None:
        return
    size = result.found.size
    if size >= ENOUGH:
        yield PassedCheck(CHECK, say("/dev/shm has {size} MB", size=size >> 20))
        return
    severity = Severity.STOPS if size <= CONTAINER_DEFAULT else Severity.SLOWS
    yield risk(
        CHECK,
        "/dev/shm",
        Cause.HOST_MEMORY,
        say("/dev/shm has only {size} MB: data-loader workers and NCCL share memory there", size=size >> 20),
        severity=severity,
        remedies=(
            Remedy(
                say("Start the container with more shared memory"),
                RemedyKind.INFRASTRUCTURE,
                say("docker run --shm-size=16g (or --ipc=host); Kubernetes: emptyDir with medium: Memory at /dev/shm"),
                say("memory of the host, only as far as it is used"),
                say("df -h /dev/shm shows the new size"),
            ),
        ),
    )
