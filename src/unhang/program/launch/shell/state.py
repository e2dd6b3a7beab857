"""What a shell knows at one moment of a script: variables, arguments, functions, its folder."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from unhang.findings import Source
from unhang.program.launch.shell.partly_known_text import UnknownParts, merge_lists
from unhang.sentences import say

ShellValue = str | list[str]
INHERITED = Source("environment")


@dataclass(frozen=True, slots=True)
class ShellVariable:
    """A string or an array, and where it was set; :data:`INHERITED`: before the command was typed."""

    value: ShellValue
    source: Source
    exported: bool = False


@dataclass(frozen=True, slots=True)
class ShellFunction:
    """A function of the shell: its body, and the script it stands in."""

    body: Any
    code: bytes
    file: str


@dataclass(frozen=True, slots=True)
class OuterLauncher:
    """Who starts the processes around the launcher: ``sbatch``, ``srun``, ``mpirun``, with its options."""

    name: str
    options: Mapping[str, str]


@dataclass(slots=True)
class ShellState:
    """``folder``: relative to the user's, or absolute."""

    variables: dict[str, ShellVariable] = field(default_factory=dict)
    folder: str = ""
    script: str = ""
    arguments: list[str] = field(default_factory=list)
    functions: dict[str, ShellFunction] = field(default_factory=dict)
    outer: tuple[OuterLauncher, ...] = ()
    trail: tuple[str, ...] = ()
    image: str = ""
    """Of a container, or another host: what it holds is not looked at."""
    conditions: tuple[Source, ...] = ()
    """Whether the script comes here depends on these."""
    ended: str = ""
    """``exit``, ``return``, ``break`` or ``continue``: nothing behind it is run."""
    depth: int = 0
    """Scripts and functions that are not left yet."""

    def copy(self) -> ShellState:
        """Another one that can go its own way."""
        return replace(
            self, variables=dict(self.variables), functions=dict(self.functions), arguments=list(self.arguments)
        )

    def child(self, script: str, arguments: list[str]) -> ShellState:
        """Of a script that is started: it has what is exported, and no function."""
        return replace(
            self,
            variables={name: one for name, one in self.variables.items() if one.exported},
            functions={},
            script=script,
            arguments=arguments,
            ended="",
            trail=(*self.trail, script) if script else self.trail,
        )

    def value(self, name: str) -> ShellValue | None:
        """Of the variable; None where it has none."""
        known = self.variables.get(name)
        return None if known is None else known.value

    def assign(self, name: str, value: ShellValue, source: Source, *, export: bool = False) -> None:
        """Set it; what was exported stays so."""
        known = self.variables.get(name)
        self.variables[name] = ShellVariable(value, source, export or (known is not None and known.exported))

    def export(self, name: str) -> None:
        """Let programs see it."""
        if name in self.variables:
            self.variables[name] = replace(self.variables[name], exported=True)

    def unset(self, name: str) -> None:
        """Take it away."""
        self.variables.pop(name, None)
        self.functions.pop(name, None)

    def place(self, path: str) -> str:
        """``path`` of the script as seen from the user's folder."""
        return posixpath.normpath(posixpath.join(self.folder, path)) if path else self.folder

    def replace_with(self, other: ShellState) -> None:
        """Go on as ``other``."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))


def merge_states(one: ShellState, other: ShellState, parts: UnknownParts, source: Source) -> ShellState:
    """How it goes on where either of two branches may have been taken: what differs is not known."""
    if one.ended in ("exit", "return") or other.ended in ("exit", "return"):
        return other if one.ended in ("exit", "return") else one
    state = one.copy()
    state.ended = one.ended if one.ended == other.ended else ""
    because = say("it depends on the condition on line {line}", line=source.line or 0)
    for name in {*one.variables, *other.variables}:
        first, second = one.variables.get(name), other.variables.get(name)
        known = first or second
        if first != second and known is not None:
            mark = parts.mark(f"${name}", because, known.source)
            state.variables[name] = replace(known, value=_either(one.value(name), other.value(name), mark))
    if one.arguments != other.arguments:
        state.arguments = merge_lists(one.arguments, other.arguments, parts.mark("$@", because, source))
    if one.folder != other.folder:
        state.folder = parts.mark("$PWD", because, source)
    return state


def _either(a: ShellValue | None, b: ShellValue | None, mark: str) -> ShellValue:
    if isinstance(a, list) and isinstance(b, list):
        return merge_lists(a, b, mark)
    if isinstance(a, str) and isinstance(b, str):
        return a if a == b else " ".join(merge_lists(a.split(" "), b.split(" "), mark))
    return [mark] if isinstance(a, list) or isinstance(b, list) else mark
