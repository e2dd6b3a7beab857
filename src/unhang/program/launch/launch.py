"""The planned command, taken apart: who launches, how many processes, which program, with which arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unhang.findings import Evidence, Source
from unhang.program.launch.job_environment import VariableSetting
from unhang.sentences import Text


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """Something on the way to the program that could not be followed, and where it stands."""

    what: Text
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class FollowedLaunch:
    """The way from the command that is typed to the one that starts the program.

    ``environment``: what the command and its scripts set, each with its place. ``unknown``: variables they set to
    something that only running tells. ``folder``: where the program is started, relative to the user's folder; empty
    for that folder. ``trail``: the scripts and containers on the way. ``place``: where the program's command stands.
    """

    environment: Mapping[str, VariableSetting] = field(default_factory=dict)
    unknown: Mapping[str, Source] = field(default_factory=dict)
    folder: str = ""
    trail: tuple[str, ...] = ()
    place: Source | None = None
    image: str = ""
    """A container's image, or another host: what it holds was not looked at."""
    not_understood: tuple[NotUnderstood, ...] = ()
    lost: bool = False
    """In which folder it is started is known only at run time."""


@dataclass(frozen=True, slots=True)
class Launch:
    """``launcher``: ``torchrun``, ``accelerate``, ``deepspeed``, ``llamafactory``, ``srun``, ``mpirun`` or ``python``;
    empty when no command was given. Names of options and arguments have underscores; a flag's value is ``true``.
    """

    launcher: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the launcher."""
    program: str = ""
    """The script, module (``-m name``) or command that trains."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Of the program, by name."""
    words: tuple[str, ...] = ()
    """Of the program that have no name."""
    argv: tuple[str, ...] = ()
    """Of the program: names, values and words, as they are given."""
    processes: int | None = None
    """On one node; None when the command does not say."""
    nodes: int | None = None
    outer: str = ""
    """``srun`` or ``mpirun`` where one of them starts the launcher."""
    followed: FollowedLaunch = FollowedLaunch()
    """How the command led here."""

    @property
    def world_size(self) -> int | None:
        """Processes on all nodes; None when the command does not say."""
        if self.processes is None:
            return None
        return self.processes * (self.nodes or 1)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file the command names: ``tree`` is what JSON, YAML or TOML say in it.

    ``kind``: ``deepspeed``, ``accelerate``, ``fsdp``, ``torchtitan``, ``llamafactory``, ``trainer``; empty when no keys
    fit.
    """

    path: str
    kind: str
    tree: Mapping[str, Any]
    by_keys: bool = False
    """Its keys alone say which kind it is: a program's own file may hold those of a library among others."""
    direct: bool = False  # the program gives it to DeepSpeed itself: no trainer and no launcher reads it

    def get(self, dotted: str, default: Any = None) -> Any:
        """The value at ``a.b.c``; ``default`` where a part is missing."""
        node: Any = self.tree
        for part in dotted.split("."):
            if not isinstance(node, Mapping) or part not in node:
                return default
            node = node[part]
        return node


@dataclass(frozen=True, slots=True)
class NamedFile:
    """The path of a configuration file, the argument, option or key that holds it (``role``), and where.

    ``because``: why it was not read; ``missing`` or ``broken``: that is sure.
    """

    role: str
    path: str
    evidence: Evidence
    because: Text | None = None
    missing: bool = False
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Configuration:
    """Every configuration file of the command, also those that another one names."""

    files: tuple[ConfigFile, ...] = ()
    unread: tuple[NamedFile, ...] = ()

    def of(self, kind: str) -> tuple[ConfigFile, ...]:
        """Files of one kind."""
        return tuple(file for file in self.files if file.kind == kind)
