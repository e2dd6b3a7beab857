"""The environment the job would see: this shell, the words before the command, and NCCL's configuration files.

NCCL fills its environment from ``$NCCL_CONF_FILE`` (else ``~/.nccl.conf``) and then ``/etc/nccl.conf``, and never
overwrites a variable that is already set: the shell wins over the user's file, the user's file over the system's
(NCCL 2.30.7 ``src/misc/param.cc``; the file's name can be chosen since 2.23).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.program.launch.job_environment import JobEnvironment, VariableSetting
from unhang.program.launch.planned_job import PlannedJob
from unhang.sentences import Text

NAME = "environment"
LIMIT_S = 5.0
NEEDS = ("versions", "configuration")
SYSTEM_FILE = "/etc/nccl.conf"
_WORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """Everything that is set, by name, with what is set elsewhere and has no effect."""
    of_scripts = list(plan.followed.environment.values()) if plan.followed is not None else []
    of_shell = [VariableSetting(name, value) for name, value in machine.environment.items()]
    layers = [_of_command(plan), of_scripts, of_shell]
    because: Text | None = None
    for path in _files(machine.environment):
        text = machine.read(path)
        because = because or text.because
        if text.found is not None:
            layers.append(_of_file(text.found, path))
    yield JobEnvironment, InspectionResult(_merged(layers), because)


def job_variables(machine: Machine, plan: PlannedJob) -> Mapping[str, str]:
    """What the words before the command and this shell set, by name."""
    return {**machine.environment, **{setting.name: setting.value for setting in _of_command(plan)}}


def _of_command(plan: PlannedJob) -> list[VariableSetting]:
    """``env A=B torchrun …`` and ``A=B torchrun …``: the words before the command proper."""
    words = plan.command[1:] if plan.command[:1] == ("env",) else plan.command
    found = []
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            break
        found.append(VariableSetting(match[1], match[2], "command"))
    return found


def _files(environment: Mapping[str, str]) -> Iterator[str]:
    own = environment.get("NCCL_CONF_FILE") or (f"{environment['HOME']}/.nccl.conf" if "HOME" in environment else "")
    if own:
        yield own
    yield SYSTEM_FILE


def _of_file(text: str, path: str) -> list[VariableSetting]:
    """NCCL splits at the first ``=`` and keeps blanks; lines that begin with ``#`` are comments."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        name, sign, value = line.partition("=")
        if sign and not line.startswith("#"):
            found.append(VariableSetting(name, value, path, number))
    return found


def _merged(layers: list[list[VariableSetting]]) -> JobEnvironment:
    in_force: dict[str, VariableSetting] = {}
    shadowed = []
    for setting in (setting for layer in layers for setting in layer):
        winner = in_force.setdefault(setting.name, setting)
        if winner is not setting and winner.value != setting.value:
            shadowed.append((winner, setting))
    return JobEnvironment(in_force, tuple(shadowed))
