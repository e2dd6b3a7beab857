"""Processes of this machine that are parts of a job and no ranks of it: drivers, engines, what scores and feeds."""

from __future__ import annotations

from collections.abc import Collection

from unhang.knowledge.worlds.roles import program_row
from unhang.watch.process_state.proc_processes import Process, ProcessTable, has_mapped

MAX_PARTS = 64
_RAY_LIBRARY, _RAY_NODE, _RAY_IDLE = "_raylet.so", "raylet", "ray::IDLE"
"""What every process that calls Ray has loaded; the program whose children its workers are; one with nothing to do."""


def parts_beside(machine: ProcessTable, ranks: Collection[Process]) -> tuple[Process, ...]:
    """Of the same user, known by their titles (``ray::RewardManager``, ``VLLM::EngineCore``) or as callers of Ray; of
    Ray only what is of the one that started ``ranks``, or may be."""
    known = {rank.pid for rank in ranks} | {below.pid for rank in ranks for below in machine.descendants(rank.pid)}
    nodes = {node for rank in ranks if (node := _ray_node(machine, rank)) is not None}
    mine = (one for one in machine.processes.values() if one.uid in {rank.uid for rank in ranks})
    found = (one for one in mine if one.is_python and one.pid not in known and _is_part(one))
    parts = (one for one in found if _is_of_their_ray(machine, one, nodes))
    return tuple(sorted(parts, key=lambda one: (one.started_ticks, one.pid))[:MAX_PARTS])


def _is_part(process: Process) -> bool:
    title = next(iter(process.command), "")
    return title != _RAY_IDLE and (program_row(title) is not None or has_mapped(process.pid, _RAY_LIBRARY))


def _is_of_their_ray(machine: ProcessTable, one: Process, nodes: Collection[int]) -> bool:
    node = _ray_node(machine, one)
    return node in nodes or (node is None and (bool(nodes) or not has_mapped(one.pid, _RAY_LIBRARY)))


def _ray_node(machine: ProcessTable, process: Process) -> int | None:
    above = machine.ancestors(process.pid)
    return next((one.pid for one in above if one.program.rsplit("/", 1)[-1] == _RAY_NODE), None)
