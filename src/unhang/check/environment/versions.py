"""Versions the planned job would run with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unhang.knowledge.job.environment_variables import EnvironmentVariable
from unhang.knowledge.job.versions import version_numbers
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import Text


@dataclass(frozen=True, slots=True)
class Versions:
    """Version by package in lower case (``torch``, ``nccl``, ``cuda``, ``driver``, …); packages not found are absent.

    ``origin`` tells where a version is from when it is not the package itself (``assumed``, ``ships with torch 2.8``).
    ``allowed``: what is not installed and of which the project takes several releases, and where it says so.
    """

    of: Mapping[str, str]
    origin: Mapping[str, Text] = field(default_factory=dict)
    allowed: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def owner_of(self, variable: EnvironmentVariable) -> str | None:
        """The version of the program that reads ``variable``; None when it is not known."""
        return self.of.get({"gloo": "torch", "torchrun": "torch"}.get(variable.owner, variable.owner))

    def at_least(self, package: str, bound: tuple[int, ...]) -> bool | None:
        """Whether ``package`` is ``bound`` or newer; None when its version is not known."""
        numbers = version_numbers(self.of.get(package, ""))
        return None if numbers is None else numbers >= bound

    def nccl2(self, settings: JobEnvironment) -> bool:
        """Whether torch's rewritten NCCL backend is the one in force: opt-in in 2.14, opt-out from 2.15."""
        wish = settings.value("TORCH_DIST_USE_NCCL2")
        if self.at_least("torch", (2, 15)):
            return wish != "0"
        return bool(self.at_least("torch", (2, 14))) and wish == "1"
