"""One value of the planned job, wherever it stands: an argument of the command before a configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from unhang.findings import Evidence, Source
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge import numbers
from unhang.program.launch.launch import Configuration, Launch
from unhang.program.program_source import ProgramSource

_TRUE, _FALSE = {"true", "yes", "1", "on"}, {"false", "no", "0", "off"}


@dataclass(frozen=True, slots=True)
class JobValue:
    """``value`` as JSON, YAML or TOML read it; text from the command."""

    name: str
    value: Any
    evidence: Evidence

    @property
    def number(self) -> float | None:
        """The value as a number; None for ``auto`` and everything else that is none."""
        return numbers.finite_number(self.value)

    @property
    def whole(self) -> int | None:
        """The value as a whole number."""
        number = self.number
        return int(number) if number is not None and number == int(number) else None

    @property
    def truth(self) -> bool | None:
        """The value as a switch; None when it is none."""
        word = str(self.value).strip().lower()
        return True if word in _TRUE else False if word in _FALSE else None


def job_values(here: NodeInspection, *names: str, kind: str = "") -> Iterator[JobValue]:
    """Every place that sets one of ``names`` (dotted in files), the command first; files of ``kind`` only, if given."""
    launch, configuration = here.found(Launch) or Launch(), here.found(Configuration) or Configuration()
    for name in names:
        if not kind and name in launch.arguments:
            text = launch.arguments[name]
            yield JobValue(name, text, Evidence(Source("command"), f"--{name} {text}"))
    for file in configuration.files:
        for name in names:
            value = None if kind and file.kind != kind else file.get(name)
            if value is not None:
                yield JobValue(name, value, Evidence(Source(file.path), f"{name}: {value}"))


def job_value(here: NodeInspection, *names: str, kind: str = "") -> JobValue | None:
    """The first of :func:`job_values`: the one in force."""
    return next(job_values(here, *names, kind=kind), None)


def value_in_force(here: NodeInspection, name: str) -> JobValue | None:
    """What the command or a file sets, else what the program's source says holds where nobody does."""
    told, program = job_value(here, name), here.found(ProgramSource) or ProgramSource()
    if told is not None or name not in program.defaults:
        return told
    value, place = program.defaults[name]
    path, _, line = place.rpartition(":")
    return JobValue(name, value, Evidence(Source(path, int(line)), f"{name}: {value}"))


def world_size_of(here: NodeInspection) -> int | None:
    """Processes the command would start on all nodes; None when it does not say."""
    return (here.found(Launch) or Launch()).world_size
