"""How an environment variable stands in a given version of the program that reads it."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from unhang.knowledge.job.environment_variables import EnvironmentVariable
from unhang.knowledge.job.versions import version_numbers
from unhang.knowledge.tables import read_rows

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
    return _nccl2().get(name, "")


def nccl2_effects() -> tuple[str, ...]:
    """Every sentence :func:`nccl2_effect` can give."""
    return tuple(_nccl2().values())


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
class _Nccl2Row:
    name: str
    effect: str


@cache
def _nccl2() -> Mapping[str, str]:
    return {row.name: row.effect for row in read_rows("nccl2.toml", "variable", _Nccl2Row)}
