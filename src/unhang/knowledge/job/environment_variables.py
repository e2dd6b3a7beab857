"""Environment variables as data (``environment/*.toml``): who reads a name, since when, what it does and costs."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from unhang.errors import KnowledgeError
from unhang.knowledge.tables import read_rows

OWNER_FILES = ("cluster", "cuda", "gloo", "launchers", "nccl", "nccl_contrib", "nobody", "torch")
Status = Literal["current", "deprecated", "renamed", "removed", "unread"]
"""``unread``: a name people set and nothing has ever read."""

_FAMILIES = (
    *("NCCL_", "RCCL_", "GLOO_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "CUDA_", "CUBLAS_", "CUDNN_", "HIP_", "HSA_"),
    *("ROCR_", "FI_", "UCX_", "OMPI_MCA_", "PMIX_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "GOMP_", "MALLOC_", "HF_"),
    *(
        "TRANSFORMERS_",
        "TOKENIZERS_",
        "ACCELERATE_",
        "FSDP_",
        "DEEPSPEED_",
        "DS_",
        "WANDB_",
        "TRITON_",
        "XLA_",
        "NVTE_",
    ),
    *("MASTER_", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONUNBUFFERED", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("SLURM_JOB_PARTITION", "SLURM_JOB_NODELIST", "SLURM_NNODES", "SLURM_NTASKS", "SLURM_CPUS_PER_TASK", "NUMEXPR_"),
)
_VARIES_BY_START = re.compile(
    r"(?:\w+_)?RANK|MASTER_PORT|SLURM_(?:JOB_?ID|JOBID|STEP\w*|PROCID|LOCALID|NODEID|TASK_PID|GTIDS|SRUN_\w+|LAUNCH\w*)"
    r"|TORCHELASTIC_\w+|GROUP_WORLD_SIZE|ROLE_\w+|PMIX_\w+|OMPI_COMM_\w+|\w*_(?:PID|PORT)|TORCH_FR_DUMP_TEMP_FILE"
)


@dataclass(frozen=True, slots=True)
class VariableDefault:
    """The default from version ``since`` of the owner on, as the owner spells it."""

    since: str
    value: str


@dataclass(frozen=True, slots=True)
class VariableConflict:
    """Another setting that this one gets in the way of, and how."""

    other: str
    why: str


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """One environment variable. Versions are the owner's own; empty texts are not known."""

    name: str
    owner: str
    """The program that reads it; ``nobody`` for names nothing reads."""
    status: Status
    effect: str
    source: str
    checked: str
    documented: bool = True
    since: str = ""
    until: str = ""
    """The version it was removed, renamed or deprecated in."""
    replacement: str = ""
    type: str = ""
    values: str = ""
    default: str = ""
    defaults: tuple[VariableDefault, ...] = ()
    cost: str = ""
    conflicts: tuple[VariableConflict, ...] = ()
    guess: bool = False
    """Name, span and default stand in the source; ``effect`` is read from the name and its place only."""
    verified: bool = True
    """False: general knowledge of the owner, not read in its source."""


def variable(name: str) -> EnvironmentVariable | None:
    """The variable of this name, whatever its case; None when no row knows it."""
    return _by_name().get(name.strip().upper())


def variables() -> tuple[EnvironmentVariable, ...]:
    """All rows, file by file."""
    return tuple(_by_name().values())


def similar_names(name: str, count: int = 3) -> tuple[str, ...]:
    """Known names that look like ``name``, the most similar first."""
    found = difflib.get_close_matches(name.strip().upper(), _by_name(), n=count, cutoff=0.75)
    return tuple(_by_name()[key].name for key in found)


@cache
def _by_name() -> dict[str, EnvironmentVariable]:
    found: dict[str, EnvironmentVariable] = {}
    for file in OWNER_FILES:
        for one in read_rows(f"environment/{file}.toml", "variable", EnvironmentVariable):
            if one.name.upper() in found:
                raise KnowledgeError(f"environment/{file}.toml: {one.name} stands twice")
            found[one.name.upper()] = one
    return found


def is_relevant(name: str) -> bool:
    """Whether a variable may have to do with how a job trains."""
    return name.startswith(_FAMILIES) or variable(name) is not None


def varies_by_start(name: str) -> bool:
    """Whether a launcher gives it another value at every start, or to every rank."""
    return _VARIES_BY_START.fullmatch(name) is not None
