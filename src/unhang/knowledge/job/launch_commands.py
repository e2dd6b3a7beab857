"""Commands that start another command, and libraries' own training commands (``launch_commands.toml``)."""

from __future__ import annotations

from functools import cache

import msgspec

from unhang.knowledge.tables import read_typed

_FILE = "launch_commands.toml"


class CommandWrapper(msgspec.Struct, frozen=True, rename={"sets": "set"}):
    """``names [verbs] OPTIONS words COMMAND``; the fields are told in the file."""

    names: tuple[str, ...]
    source: str
    verbs: tuple[str, ...] = ()
    takes: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    two: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    folder: frozenset[str] = frozenset()
    mount: frozenset[str] = frozenset()
    words: int = 0
    outer: bool = False
    apart: str = ""
    ends: str = ""
    joined: bool = False
    """The command's words are one text for a shell."""
    python: bool = False
    """A file behind it is started by Python."""

    def values(self, option: str) -> int:
        """How many words ``option`` takes."""
        if option in self.two:
            return 2
        if option in self.takes | self.sets | self.folder | self.mount:
            return 1
        if not option.startswith("--") and all(f"-{letter}" in self.flags for letter in option[1:]):
            return 0  # -lu
        return 1 if self.flags and option not in self.flags else 0

    def takes_glued(self, word: str) -> bool:
        """``-n4``: the value stands in the same word as the option."""
        if word.startswith("--") or len(word) < 3 or word in self.flags | self.two:
            return False
        known = self.takes | self.sets | self.folder | self.mount
        return word[:2] in known or (bool(self.flags) and word[2].isdigit())


class LauncherCommand(msgspec.Struct, frozen=True):
    """``names OPTIONS PROGRAM``; the fields are told in the file."""

    names: tuple[str, ...]
    launcher: str
    source: str
    modules: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()

    def values(self, option: str) -> int:
        """How many words ``option`` takes."""
        return 0 if option.lstrip("-").replace("-", "_") in self.flags else 1


class TrainingCommand(msgspec.Struct, frozen=True):
    """A command of a library; the fields are told in the file."""

    names: tuple[str, ...]
    verbs: tuple[str, ...]
    module: str
    launcher: str
    source: str
    processes: str = ""
    nodes: str = ""


class _File(msgspec.Struct, frozen=True):
    wrapper: tuple[CommandWrapper, ...]
    launcher: tuple[LauncherCommand, ...]
    program: tuple[TrainingCommand, ...]


@cache
def _rows() -> _File:
    return read_typed(_FILE, _File)


def wrapper_of(name: str, verb: str) -> CommandWrapper | None:
    """The row of a command that starts another one."""
    rows = (row for row in _rows().wrapper if name in row.names)
    return next((row for row in rows if not row.verbs or verb in row.verbs or "" in row.verbs), None)


def launcher_of(name: str) -> LauncherCommand | None:
    """The row of a command that starts the ranks: ``torchrun``, ``accelerate launch``."""
    return next((row for row in _rows().launcher if name in row.names), None)


def launcher_of_module(module: str) -> LauncherCommand | None:
    """The row of what ``python -m`` starts."""
    return next((row for row in _rows().launcher if module in row.modules), None)


def training_command(name: str, verb: str) -> TrainingCommand | None:
    """The row of a library's own command."""
    return next((row for row in _rows().program if name in row.names and verb in row.verbs), None)
