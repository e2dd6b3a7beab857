"""Environment variables the planned job would see, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable. ``origin``: ``environment``, ``command``, or a file's path; ``line`` counts from 1 in files."""

    name: str
    value: str
    origin: str = "environment"
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """``in_force`` by name; ``shadowed``: (in force, set elsewhere to another value and without effect)."""

    in_force: Mapping[str, Setting]
    shadowed: tuple[tuple[Setting, Setting], ...] = ()

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
    *("FSDP_", "HF_", "TRANSFORMERS_", "OMP_", "PYTORCH_", "MASTER_", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
)


_SECRETS = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL")


def of_families(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that every rank should have alike; nothing that may be a secret."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(FAMILIES) and not any(part in name for part in (*DIFFERS_BY_RANK, *_SECRETS))
    }
