"""Environment variables as data (``environment/*.toml``): who reads a name, since when, what it does and costs.

Also how one stands in a version of its owner, what the owner makes of a value (NCCL reads ``true`` as 0, torch stops at
``on``), and which settings cost more than people who copy them know (``costly.toml``).
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from unhang.errors import KnowledgeError
from unhang.knowledge.job.versions import version_numbers
from unhang.knowledge.tables import read_rows, rows_by

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
    *("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "SLURM_CONTAINER"),
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
    """False: the effect was not checked in the source of the owner."""


def variable(name: str) -> EnvironmentVariable | None:
    """The variable of this name, whatever its case; None when no row knows it."""
    return _by_name().get(name.strip().upper())


def variables() -> tuple[EnvironmentVariable, ...]:
    """All rows, file by file."""
    return tuple(_by_name().values())


def similar_names(name: str) -> tuple[str, ...]:
    """Three known names at most that look like ``name``, the most similar first."""
    found = difflib.get_close_matches(name.strip().upper(), _by_name(), n=3, cutoff=0.75)
    return tuple(_by_name()[key].name for key in found)


@cache
def _by_name() -> dict[str, EnvironmentVariable]:
    found: dict[str, EnvironmentVariable] = {}
    for file in OWNER_FILES:
        for one in read_rows(f"environment/{file}.toml", "variable", EnvironmentVariable):
            if one.name.upper() in found:
                raise KnowledgeError(f"environment/{file}.toml: {one.name} appears twice")
            found[one.name.upper()] = one
    return found


def is_relevant(name: str) -> bool:
    """Whether a variable may have to do with how a job trains."""
    return name.startswith(_FAMILIES) or variable(name) is not None


def varies_by_start(name: str) -> bool:
    """Whether a launcher gives it another value at every start, or to every rank."""
    return _VARIES_BY_START.fullmatch(name) is not None


_FIRST_NUMBER = re.compile(r"\d+(?:\.\d+)+")
_EVER_SINCE = ("<=", "or earlier")
_STILL_READ = "still read"


class VariableSupport(str, enum.Enum):
    """What becomes of a variable that is set."""

    READ = "read"
    OLD_NAME = "old name, still read"
    DEPRECATED = "deprecated, still read"
    GONE = "no longer read"
    NOT_YET = "not read yet"
    NOBODY = "read by nobody"
    NOT_KNOWN = "not known"
    """The backend in force was rewritten, and nothing says whether it reads this."""


def variable_support(variable: EnvironmentVariable, version: str | None, *, nccl2: bool = False) -> VariableSupport:
    """How ``variable`` stands in ``version`` of its owner; None (not known) counts as the newest that reads it.

    ``nccl2``: the job uses torch's rewritten NCCL backend.
    """
    found = _support_in_version(variable, version_numbers(version) if version else None)
    read = found in (VariableSupport.READ, VariableSupport.OLD_NAME, VariableSupport.DEPRECATED)
    return VariableSupport.NOT_KNOWN if nccl2 and read and not _nccl2_reads(variable) else found


def _support_in_version(variable: EnvironmentVariable, version: tuple[int, ...] | None) -> VariableSupport:
    if variable.status == "unread":
        return VariableSupport.NOBODY
    if version is not None and _before(version, variable.since):
        return VariableSupport.NOT_YET
    if variable.status == "current" or (version is not None and _before(version, variable.until)):
        return VariableSupport.READ
    if variable.status == "deprecated":
        return VariableSupport.DEPRECATED
    return VariableSupport.OLD_NAME if _STILL_READ in variable.until else VariableSupport.GONE


def nccl2_effect(name: str) -> str:
    """What torch's rewritten NCCL backend does with ``name``; empty when nothing is known."""
    row = _nccl2().get(name)
    return "" if row is None else row.effect


def _before(version: tuple[int, ...], bound: str) -> bool:
    """Whether ``version`` is older than the version ``bound`` names first; False where it names none."""
    if any(word in bound for word in _EVER_SINCE):
        return False
    found = _FIRST_NUMBER.search(bound)
    numbers = version_numbers(found[0]) if found else None
    return numbers is not None and version < numbers


def _nccl2_reads(variable: EnvironmentVariable) -> bool:
    """Only variables of the legacy backend's own family are in doubt; the rest of torch is the same."""
    if variable.owner != "torch" or not variable.name.startswith(("TORCH_NCCL_", "NCCL_", "TORCH_FR_")):
        return True
    return variable.name in _nccl2() or variable.replacement in _nccl2()


@dataclass(frozen=True, slots=True)
class Nccl2Row:
    """A variable that torch's rewritten NCCL backend knows, and what it does with it."""

    name: str
    effect: str


def _nccl2() -> Mapping[str, Nccl2Row]:
    return rows_by("name", "nccl2.toml", "variable", Nccl2Row)


_TRUE, _FALSE = ("y", "yes", "1", "t", "true"), ("n", "no", "0", "f", "false")
_INTEGER = re.compile(r"\s*([+-]?(?:0[xX][0-9a-fA-F]+|\d+))")
_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?::N)?")
_UNCHECKED_TYPES = ("plugin", "grammar", "not checked", "path", "python level")
"""Words in a row's ``values`` that say that the list is not all there is."""

_MAX_INTEGER = (1 << 63) - 1
_LONGEST = 40
"""Digits that are read: more never fit."""


class ParseOutcome(str, enum.Enum):
    """What becomes of a value."""

    FINE = "fine"
    READ_AS = "read as something else"
    IGNORED = "ignored"
    RAISES = "raises"


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """``value``: what is in force (text of a number, ``1``/``0`` for truth values, the word of an enumeration)."""

    value: str
    outcome: ParseOutcome = ParseOutcome.FINE


def parse_value(variable: EnvironmentVariable, text: str) -> ParsedValue:
    """What the owner of ``variable`` makes of ``text``. A type that is not modelled is taken as it is."""
    if "anything else raises" in variable.values:
        return _torch_bool(text)
    if variable.type.startswith(("int", "bool 0/1", "duration", "uint")):
        return _integer(text, raises=variable.owner == "torch")
    if variable.type == "enum" and not any(word in variable.values.lower() for word in _UNCHECKED_TYPES):
        return _enum(variable, text)
    return ParsedValue(text)


def _torch_bool(text: str) -> ParsedValue:
    word = text.strip().lower()
    if word in _TRUE:
        return ParsedValue("1")
    return ParsedValue("0") if word in _FALSE else ParsedValue("", ParseOutcome.RAISES)


def _integer(text: str, *, raises: bool) -> ParsedValue:
    """``strtoll`` reads the number at the start, takes no number for 0 and the nearest for one without end;
    ``std::stoi`` raises at both.
    """
    found = _INTEGER.match(text)
    if found is None:
        return ParsedValue("", ParseOutcome.RAISES) if raises else ParsedValue("0", ParseOutcome.READ_AS)
    hexadecimal = found[1].lower().lstrip("+-").startswith("0x")
    number = int(found[1][:_LONGEST], 16 if hexadecimal else 10)
    if abs(number) > _MAX_INTEGER:
        nearest = str(_MAX_INTEGER if number > 0 else -_MAX_INTEGER)
        return ParsedValue("", ParseOutcome.RAISES) if raises else ParsedValue(nearest, ParseOutcome.READ_AS)
    whole = text[found.end() :].strip() == ""
    return ParsedValue(str(number), ParseOutcome.FINE if whole else ParseOutcome.READ_AS)


def _enum(variable: EnvironmentVariable, text: str) -> ParsedValue:
    words = {word.upper() for word in _WORDS.findall(variable.values.split("(")[0])}
    if not words or text.strip().upper() in words or text.strip().isdigit():
        return ParsedValue(text.strip().upper())
    return ParsedValue("", ParseOutcome.IGNORED)


@dataclass(frozen=True, slots=True)
class CostlySetting:
    """Values of variables that cost speed or hide a stall. ``cause``: id of the stall it would lead to or hide."""

    names: tuple[str, ...]
    values: tuple[str, ...]
    """As the owner reads them."""
    cause: str
    effect: str
    unless: str
    """When it is right all the same."""
    source: str


def find_costly_setting(name: str, value: str) -> CostlySetting | None:
    """What ``name`` set to ``value`` (as its owner reads it) costs; None when it is no such setting."""
    row = rows_by("names", "costly.toml", "costly", CostlySetting).get(name)
    return row if row is not None and value.upper() in row.values else None


def is_default(variable: EnvironmentVariable, text: str) -> bool:
    """Whether ``text`` is what the owner takes, in every version that is known, where the variable is not set."""
    defaults = {one.value for one in variable.defaults} or {variable.default}
    value = parse_value(variable, text).value
    return bool(variable.default) and all(parse_value(variable, one).value == value for one in defaults)
