"""What this node would bring to the job and every other one must bring alike: code, configuration, settings, versions.

One node alone has nothing to compare; ``check/risks/sameness.py`` judges several beside each other.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from unhang.check.devices.collect_driver import driver_release
from unhang.check.environment import collect_environment as environment
from unhang.check.environment import collect_versions
from unhang.check.environment.environment import Versions
from unhang.check.sameness.sameness import NodeFingerprint
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge import numbers
from unhang.program import collect_program
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.job_environment import JobEnvironment, comparable_variables
from unhang.program.launch.launch import Configuration
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.program_source import ProgramSource
from unhang.program.settings import configuration_files

NAME = "sameness"
LIMIT_S = 20.0
NEEDS = ("program", "configuration")


def collect(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
    """Hashes of what the command leads to, and versions, and settings as they are here."""
    source = _found(collect_program.collect(machine, plan), ProgramSource)
    files = _found(configuration_files.collect(machine, plan), Configuration)
    settings = _found(environment.collect(machine, plan), JobEnvironment)
    installed = _found(collect_versions.collect(machine, plan), Versions)
    launch = parse_command(plan.command)
    nodes = max(launch.nodes or 1, *(_number(machine.environment, name) for name in ("SLURM_NNODES", "NNODES")))
    yield (
        NodeFingerprint,
        InspectionResult(
            NodeFingerprint(
                program={file.path: _hash(file.text) for file in source.whole} if source is not None else {},
                configuration=_hashes(machine, [file.path for file in files.files] if files is not None else []),
                environment=comparable_variables({n: s.value for n, s in settings.in_force.items()})
                if settings
                else {},
                versions={**_own_versions(machine), **(installed.of if installed is not None else {})},
                others=nodes > 1,
            )
        ),
    )


def _found(answers: Iterable[tuple[type, InspectionResult[Any]]], kind: type) -> Any:
    return next((answer.found for answered, answer in answers if answered is kind), None)


def _number(environment: Mapping[str, str], name: str) -> int:
    return numbers.integer(environment.get(name, "")) or 1


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def _hashes(machine: Machine, paths: Iterable[str]) -> dict[str, str]:
    texts = {path: machine.read_named(path).found for path in paths}
    return {path: _hash(text) for path, text in texts.items() if text is not None}


def _own_versions(machine: Machine) -> dict[str, str]:
    driver = driver_release(machine)
    return {"python": platform.python_version(), **({"driver": driver} if driver else {})}
