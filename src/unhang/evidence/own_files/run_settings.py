"""Read ``settings.json``: with what a run was started. And which environment variables are worth keeping there."""

from __future__ import annotations

import re

import msgspec

from unhang.findings import Source, Unread
from unhang.knowledge.job.environment_variables import variable
from unhang.wire.documents.document import DECODE_ERRORS

SCHEMA = "unhang.settings/1"
MAX_BYTES = 8 << 20
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


class GpuDescription(msgspec.Struct, frozen=True):
    """A card as it was when the run began; ``memory`` in bytes."""

    index: int = 0
    name: str = ""
    uuid: str = ""
    memory: int = 0
    width: int | None = None
    uncorrected: int = 0


class NodeDescription(msgspec.Struct, frozen=True):
    """A machine of the run; ``memory`` in bytes."""

    name: str = ""
    kernel: str = ""
    processors: int | None = None
    usable_processors: int | None = None
    memory: int | None = None


class SettingsFile(msgspec.Struct, frozen=True):
    """A configuration file the command named: its values by dotted key."""

    path: str
    kind: str = ""
    sha256: str = ""
    keys: dict[str, str] = {}


class RunSettings(msgspec.Struct, frozen=True):
    """With what a run was started. Versions by package, ``python``, ``cuda``, ``nvidia-driver``."""

    schema: str
    written_s: float = 0.0
    command: tuple[str, ...] = ()
    folder: str = ""
    world_size: int | None = None
    nodes: tuple[NodeDescription, ...] = ()
    versions: dict[str, str] = {}
    environment: dict[str, str] = {}
    cards: tuple[GpuDescription, ...] = ()
    files: tuple[SettingsFile, ...] = ()
    program: dict[str, str] = {}
    not_looked: tuple[str, ...] = ()


def read_run_settings(raw: bytes, *, source: Source) -> RunSettings | Unread:
    """What the watcher wrote, or why it cannot be believed."""
    if len(raw) > MAX_BYTES:
        return Unread(source, f"is larger than {MAX_BYTES >> 20} MiB, too large for the settings of a run")
    try:
        found = msgspec.json.decode(raw, type=RunSettings)
    except DECODE_ERRORS as error:
        return Unread(source, f"is no record of a run's settings: {str(error)[:200]}")
    if found.schema != SCHEMA:
        return Unread(source, f"is no record of a run's settings: its schema is {found.schema[:60]!r}, not {SCHEMA!r}")
    return found


def is_relevant(name: str) -> bool:
    """Whether a variable may have to do with how a job trains."""
    return name.startswith(_FAMILIES) or variable(name) is not None


def varies_by_start(name: str) -> bool:
    """Whether a launcher gives it another value at every start, or to every rank."""
    return _VARIES_BY_START.fullmatch(name) is not None
