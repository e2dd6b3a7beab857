"""Environment variables the planned job would see, where each comes from, and what a launcher says in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unhang.findings import Evidence, Source


@dataclass(frozen=True, slots=True)
class VariableSetting:
    """One variable. ``origin``: ``environment``, ``command``, or a file's path; ``line`` counts from 1 in files."""

    name: str
    value: str
    origin: str = "environment"
    line: int | None = None

    @property
    def evidence(self) -> Evidence:
        """``NAME=value`` and where it stands."""
        return Evidence(Source(self.origin, self.line), f"{self.name}={self.value}")


@dataclass(frozen=True, slots=True)
class JobEnvironment:
    """``in_force`` by name; ``shadowed``: (in force, set elsewhere to another value and without effect)."""

    in_force: Mapping[str, VariableSetting]
    shadowed: tuple[tuple[VariableSetting, VariableSetting], ...] = ()

    def value(self, name: str) -> str | None:
        """The value of ``name``, None when it is not set."""
        setting = self.in_force.get(name)
        return None if setting is None else setting.value


DIFFERS_BY_RANK = (
    *("RANK", "LOCAL_RANK", "PROCID", "LOCALID", "NODEID", "NODENAME", "TASK_PID", "GTIDS", "VISIBLE_DEVICES"),
    *("GPUS_ON_NODE", "STEP_GPUS", "JOB_GPUS", "CPU_BIND", "CPUS_ON_NODE", "TOPOLOGY_ADDR", "ERROR_FILE", "_HOST"),
)
"""Parts of names that launchers give every rank or node another value of."""


FAMILIES = (
    *("NCCL_", "TORCH_", "TORCHELASTIC_", "GLOO_", "CUDA_", "UCX_", "FI_", "OFI_", "DEEPSPEED_", "DS_", "ACCELERATE_"),
    *("FSDP_", "HF_", "TRANSFORMERS_", "OMP_", "PYTORCH_", "MASTER_", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK"),
)


_SECRETS = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL")


def comparable_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that every rank should have alike; nothing that may be a secret."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(FAMILIES) and not any(part in name for part in (*DIFFERS_BY_RANK, *_SECRETS))
    }


_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),  # a batch script has SLURM_NTASKS, and is no task
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)


@dataclass(frozen=True, slots=True)
class LauncherTask:
    """This process among those the launcher started."""

    rank: int
    count: int
    local_rank: int = 0


def find_task(environment: Mapping[str, str]) -> LauncherTask | None:
    """What the launcher says; None where this process was started alone."""
    for names in _LAUNCHERS:
        rank, count, local = (environment.get(name, "") for name in names)
        if rank.isdecimal() and count.isdecimal() and int(count) > 1:
            return LauncherTask(int(rank), int(count), int(local) if local.isdecimal() else 0)
    return None
