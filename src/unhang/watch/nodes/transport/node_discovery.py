"""Which other nodes belong to this start, as the launcher's own settings tell: no question to the user.

Read from the command line of torchrun, accelerate or DeepSpeed, from the variables of Slurm, Open MPI and of
Kubernetes' training operators. Nothing here opens a connection.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from unhang.program.launch.command_words import launcher_options
from unhang.watch.job.sibling_tasks import tasks_per_node
from unhang.watch.job.unwatched_nodes import read_host_file
from unhang.wire.documents.other_nodes import MAX_NODES

TORCHRUN_PORT, ELASTIC_PORT = 29500, 29400
NODES_VIA, NODE_NAME = "UNHANG_NODES_VIA", "UNHANG_NODE_NAME"


@dataclass(frozen=True, slots=True)
class JobNodes:
    """All nodes of one start. ``key``: the same on all of them, and for no other start that runs beside it.

    ``count``: how many nodes at most, 0 where nothing tells; ``number``: which one this is, from 0; None where only
    the meeting tells. ``address`` and ``port``: where the job itself meets, empty and 0 where nothing tells.
    ``via``: where the user wants the watchers to meet: a folder, or HOST:PORT.
    """

    key: str
    count: int = 0
    number: int | None = None
    address: str = ""
    port: int = 0
    via: str = ""


def discover_nodes(environment: Mapping[str, str], command: Sequence[str], via: str = "") -> JobNodes | None:
    """The nodes of this start; None for a start on one machine.

    Args:
        environment: of ``unhang run`` itself.
        command: what it runs.
        via: ``--nodes-via``; alone it joins all nodes that name the same place.
    """
    via = via or environment.get(NODES_VIA, "")
    found = _torchrun(environment, command) or _accelerate(command) or _deepspeed(command)
    found = found or _slurm(environment) or _mpi(environment)
    if found is None:
        return JobNodes(key=f"via {via}", via=via) if via else None
    return replace(found, via=via) if via or found.count != 1 else None


def node_name(environment: Mapping[str, str]) -> str:
    """What this node is called in folders and lines; containers may share a host name and set ``UNHANG_NODE_NAME``."""
    return re.sub(r"[^\w.-]", "_", environment.get(NODE_NAME, "") or os.uname().nodename)[:100] or "host"


def _torchrun(environment: Mapping[str, str], command: Sequence[str]) -> JobNodes | None:
    words = launcher_options("torchrun", command)
    if words is None:
        return None

    def told(name: str, otherwise: str = "") -> str:
        return words.get(name) or environment.get("PET_" + name.upper(), otherwise)

    count = _count(told("nnodes").rpartition(":")[2])
    if count is None or count < 2 or "standalone" in words:
        return None
    endpoint = told("rdzv_endpoint")
    if endpoint and told("rdzv_backend", "static") != "static":
        address, port = _address(endpoint, ELASTIC_PORT)
        return JobNodes(f"torchrun {told('rdzv_id', 'none')} {endpoint}", count, None, address, port)
    address, port = _address(endpoint, TORCHRUN_PORT) if endpoint else (told("master_addr"), TORCHRUN_PORT)
    if not endpoint:
        port = _count(told("master_port")) or port
    number = _count(told("node_rank", "0"))
    return JobNodes(f"torchrun {told('rdzv_id', 'none')} {address}:{port}", count, number, address, port)


def _accelerate(command: Sequence[str]) -> JobNodes | None:
    words = launcher_options("accelerate", command)
    count = _count(words.get("num_machines", "")) if words is not None else None
    if words is None or count is None:
        return None
    address, port = words.get("main_process_ip", ""), _count(words.get("main_process_port", "")) or TORCHRUN_PORT
    return JobNodes(f"accelerate {address}:{port}", count, _count(words.get("machine_rank", "0")), address, port)


def _deepspeed(command: Sequence[str]) -> JobNodes | None:
    """Only a start on every node (``--no_ssh``): otherwise it starts all nodes itself, without us."""
    words = launcher_options("deepspeed", command)
    address = words.get("master_addr", "") if words is not None else ""
    if words is None or "no_ssh" not in words or not address:
        return None
    port = _count(words.get("master_port", "")) or TORCHRUN_PORT
    count = _count(words.get("num_nodes", "")) or 0
    file = words.get("hostfile") or words.get("H")
    if not count and file:
        with suppress(OSError):
            count = len(read_host_file(Path(file)))
    # Numbers without a count would leave nobody to be heard: then the nodes take seats.
    number = _count(words.get("node_rank", "")) if count else None
    return JobNodes(f"deepspeed {address}:{port}", count, number, address, port)


def _slurm(environment: Mapping[str, str]) -> JobNodes | None:
    job, step = environment.get("SLURM_JOB_ID"), environment.get("SLURM_STEP_ID")
    if not job or not step:
        return None
    count = _count(environment.get("SLURM_STEP_NUM_NODES", "")) or len(
        tasks_per_node(environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    )
    if not count:
        return None
    again = environment.get("SLURM_RESTART_COUNT", "0")
    address, port = _of_environment(environment)
    number = _count(environment.get("SLURM_NODEID", ""))
    return JobNodes(f"slurm {job}.{step}.{again}", count, number, address, port)


def _mpi(environment: Mapping[str, str]) -> JobNodes | None:
    """The variables do not tell which node this is, only how many tasks it has: the meeting gives numbers."""
    world = _count(environment.get("OMPI_COMM_WORLD_SIZE", "") or environment.get("PMI_SIZE", ""))
    local = _count(environment.get("OMPI_COMM_WORLD_LOCAL_SIZE", "") or environment.get("MPI_LOCALNRANKS", ""))
    if not world or not local or world <= local:
        return None
    address, port = _of_environment(environment)
    name = environment.get("PMIX_NAMESPACE") or environment.get("PMI_JOBID") or f"{address}:{port}"
    return JobNodes(f"mpi {name}", -(-world // local) if world % local == 0 else 0, None, address, port)


def _of_environment(environment: Mapping[str, str]) -> tuple[str, int]:
    return environment.get("MASTER_ADDR", ""), _count(environment.get("MASTER_PORT", "")) or TORCHRUN_PORT


def _address(endpoint: str, port: int) -> tuple[str, int]:
    """``HOST:PORT`` or ``HOST``, an IPv6 address in brackets."""
    match = re.fullmatch(r"\[([^\]]+)\](?::(\d{1,5}))?|([^:]+)(?::(\d{1,5}))?", endpoint.strip())
    if match is None:
        return "", 0
    return match[1] or match[3], int(match[2] or match[4] or port)


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) <= MAX_NODES else None
