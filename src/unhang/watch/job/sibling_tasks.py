"""Whether a batch system or MPI started several of us on this machine, one a rank: they share one watcher."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from unhang.watch.process_state.proc_processes import PROC, read_environment, stat_fields

_MPI = (  # (task on this machine, tasks on this machine, tasks in all)
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_SIZE"),
    ("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_SIZE"),
)


@dataclass(frozen=True, slots=True)
class SiblingTasks:
    """One task of several. ``key``: the same for all tasks of one start on this machine, and for no other start.

    ``number``: this task among the ``count`` on this machine. ``name``: of the start, for people; empty where it has
    none. ``several_machines``: others of the same start run elsewhere.
    """

    key: str
    number: int
    count: int
    name: str = ""
    several_machines: bool = False


def sibling_tasks(environment: Mapping[str, str]) -> SiblingTasks | None:
    """What the environment says; None for a task that is not one of several, here or on other machines."""
    found = _slurm(environment) or _mpi(environment)
    return found if found is not None and (found.count > 1 or found.several_machines) else None


def _slurm(environment: Mapping[str, str]) -> SiblingTasks | None:
    job, step = environment.get("SLURM_JOB_ID"), environment.get("SLURM_STEP_ID")
    number, tasks = environment.get("SLURM_LOCALID", ""), environment.get("SLURM_STEP_TASKS_PER_NODE", "")
    if job is None or step is None or not number.isdigit():
        return None
    counts = tasks_per_node(tasks)
    node = environment.get("SLURM_NODEID", "0")
    if not counts or not node.isdigit() or int(node) >= len(counts):
        return None
    again = environment.get("SLURM_RESTART_COUNT", "0")
    name = f"slurm-{job}.{step}" if again == "0" else f"slurm-{job}.{step}.{again}"  # requeued, it keeps its number
    return SiblingTasks(f"{name}.{_namespace()}", int(number), counts[int(node)], name, len(counts) > 1)


def _mpi(environment: Mapping[str, str]) -> SiblingTasks | None:
    for local_rank, local_size, size in _MPI:
        number, count, world = (environment.get(name, "") for name in (local_rank, local_size, size))
        if number.isdigit() and count.isdigit():
            several = world.isdigit() and int(world) > int(count)
            return SiblingTasks(
                f"mpi.{_common_ancestor(local_rank)}.{_namespace()}", int(number), int(count), "", several
            )
    return None


def tasks_per_node(text: str) -> list[int]:
    """Slurm's ``4(x2),3`` as one number a node; empty where it is none of this."""
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part.strip())
        if match is None:
            return []
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _common_ancestor(variable: str) -> str:
    """The nearest ancestor that is not itself such a task: what started all of them. Its pid and start time."""
    pid = os.getppid()
    for _ in range(64):
        if pid <= 1 or variable not in (read_environment(pid) or {}):
            break
        pid = int(stat_fields(pid)[1])
    fields = stat_fields(pid)
    return f"{pid}.{fields[19] if len(fields) > 19 else 0}"


def _namespace() -> str:
    """Tasks that cannot see each other's processes cannot share a watcher."""
    try:
        return str((PROC / "self/ns/pid").stat().st_ino)
    except OSError:
        return "0"
