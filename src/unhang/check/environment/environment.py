"""What a job would run with: versions, timers, and limits of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unhang.findings import Evidence
from unhang.knowledge.job.environment_variables import EnvironmentVariable
from unhang.knowledge.job.versions import version_numbers
from unhang.program.imports.missing_names import MissingName
from unhang.program.imports.version_checks import VersionCheck
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


@dataclass(frozen=True, slots=True)
class AskedPackage:
    """What a project asks for (``trl==0.16.0``), and where (``setup.py:3``). ``installed``: empty where it is absent;
    ``stalls``: its release often decides whether a job stalls; ``compiled``: it may be compiled here when it is
    installed; ``imported``: where the script imports ``module`` in any case, which is not there, or of another major
    release than any that is asked for."""

    name: str
    asked: str
    place: str
    installed: str = ""
    stalls: bool = False
    compiled: bool = False
    module: str = ""
    imported: str = ""


@dataclass(frozen=True, slots=True)
class MissingNames:
    """Imports of the launch that the installed packages do not have."""

    names: tuple[MissingName, ...] = ()


@dataclass(frozen=True, slots=True)
class Requirements:
    """``count`` packages that the project of the launch asks for, against what is installed for ``python``.
    ``contradictions``: of a package, two requirements that no release meets. ``install``: the command that
    makes it so; ``index``: where pip gets packages if that needs a password, which is left out."""

    python: str
    count: int
    differing: tuple[AskedPackage, ...] = ()
    contradictions: tuple[tuple[AskedPackage, AskedPackage], ...] = ()
    install: str = ""
    index: str = ""


@dataclass(frozen=True, slots=True)
class OwnChecks:
    """What the program itself demands of releases before it does anything."""

    checks: tuple[VersionCheck, ...]


@dataclass(frozen=True, slots=True)
class Timer:
    """One limit. ``kind``: ``collective`` (the watchdog's), ``first steps`` and ``later steps`` (where they differ),
    ``heartbeat``, ``start`` (rendezvous and store), ``scheduler`` (what is left), ``shutdown``.
    """

    kind: str
    seconds: float
    name: str
    """The knob: ``ddp_timeout``, ``init_process_group(timeout=)``, …"""
    evidence: Evidence | None = None
    """Where somebody set it, or the call whose default it is."""
    default: bool = False


@dataclass(frozen=True, slots=True)
class Timers:
    """``timers``: set and default ones. ``groups_without``: calls that make groups and give no limit, so that they get
    their class's default, whatever the first group was given.
    """

    timers: tuple[Timer, ...] = ()
    groups_without: tuple[Evidence, ...] = ()
    ignored: tuple[Timer, ...] = ()
    """Set, and not in force: another part makes the group first."""

    def of(self, *kinds: str) -> tuple[Timer, ...]:
        """Timers of these kinds, the shortest first."""
        return tuple(sorted((t for t in self.timers if t.kind in kinds), key=lambda t: t.seconds))


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """``/dev/shm``; bytes in all."""

    size: int


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of a process started here; None is unlimited. Locked memory in bytes."""

    locked_memory: int | None
    open_files: int | None


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Memory a process here may use, in bytes: the smallest of the machine's and its memory groups'."""

    limit: int
    used: int
    group: str
    """Path of the memory group that sets it; empty for the machine itself."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """Whether one process of a user may look at the stacks of another: Yama's scope and our own capability."""

    scope: int
    may_trace: bool


@dataclass(frozen=True, slots=True)
class RdmaDevices:
    """InfiniBand and RoCE devices by name (``mlx5_0``)."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cores:
    """Processor cores the job may use: the machine's, or fewer where a control group says so."""

    count: int


@dataclass(frozen=True, slots=True)
class NeededSettings:
    """Settings that this machine was seen to need, as ``NAME=value``, and how that is known: ``bisect 2026-11-20``."""

    of: Mapping[str, str]
