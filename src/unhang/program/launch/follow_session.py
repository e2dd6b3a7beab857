"""What is shared while one command is followed: files, marks, what was started, what was not understood."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from unhang.findings import Source
from unhang.host.machine import Machine
from unhang.program.launch.launch import NotUnderstood
from unhang.program.launch.shell.partly_known_text import UnknownParts, is_known, without_marks
from unhang.program.launch.shell.state import ShellState
from unhang.sentences import Text, say

MAX_STEPS, MAX_DEPTH = 20_000, 24


@dataclass(frozen=True, slots=True)
class ProgramStart:
    """A program is started: its words from the launcher on, by ``state``, at ``source``."""

    words: tuple[str, ...]
    state: ShellState
    source: Source | None


@dataclass(slots=True)
class FollowSession:
    """What following one command found: programs it starts, notes, and parts that stay unknown."""

    machine: Machine
    parts: UnknownParts = field(default_factory=UnknownParts)
    starts: list[ProgramStart] = field(default_factory=list)
    notes: dict[NotUnderstood, None] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    """Files that the scripts themselves make."""
    touched: set[str] = field(default_factory=set)
    """What programs of the script were given: such a file may be there by then."""
    exits: list[Source] = field(default_factory=list)
    """Where a script ends itself."""
    steps: int = 0
    depth: int = 0

    def note(self, text: Text, source: Source | None = None) -> None:
        """Something was not understood."""
        self.notes.setdefault(NotUnderstood(text, source))

    def absolute(self, path: str) -> str:
        """``path``, seen from the user's folder, as the scripts would print it."""
        return posixpath.normpath(posixpath.join(self.machine.folder, path))

    def read(self, path: str) -> str | None:
        """The text of a file, as the user's folder sees it; None where there is none, or none that may be read."""
        if not is_known(path) or not path:
            return None
        normal = posixpath.normpath(path)
        if normal in self.written:
            return self.written[normal]
        look = self.machine.read_named(normal)
        if look.because is not None:
            self.note(look.because)
        return None if look.found is None else without_marks(look.found)

    def may_be_made(self, path: str) -> bool:
        """A program of the script may have put something at ``path``."""
        return any(path == one or path.startswith(f"{one}/") for one in self.touched)

    def is_folder(self, path: str) -> bool | None:
        """Whether there is such a folder; None where the path is not known."""
        if not is_known(path):
            return None
        look = self.machine.entries(self.absolute(path))
        return None if look.because is not None else look.found is not None

    def find_folder_with(self, path: str) -> str:
        """The nearest folder above the user's in which ``path`` is a folder; empty where there is none."""
        above = posixpath.normpath(self.machine.folder)
        while above != posixpath.dirname(above):
            above = posixpath.dirname(above)
            if self.is_folder(posixpath.join(above, path)):
                return above
        return ""

    def may_go_on(self) -> bool:
        """A script that loops for ever is left in time."""
        self.steps += 1
        if self.steps == MAX_STEPS:
            self.note(say("the scripts do more than {count} steps, the rest was not followed", count=MAX_STEPS))
        return self.steps < MAX_STEPS


@dataclass(slots=True)
class ScriptFrame:
    """Execution context of one script, function or substitution."""

    session: FollowSession
    state: ShellState
    file: str
    code: bytes
    run: Callable[[ScriptFrame, Any], bool | None]
    stdin: str | None = None
    output: list[str] | None = None
    """What is printed; None where nobody reads it."""
    line: int | None = None
    """Of the file, where the code is a text inside it."""
    assigning: str = ""
    """The variable whose new value is being read."""

    def source(self, node: Any) -> Source:
        """Where ``node`` stands."""
        return Source(self.file, self.line or node.start_point[0] + 1)

    def text(self, node: Any) -> str:
        """The source text of ``node``."""
        said = self.code[node.start_byte : node.end_byte].decode("utf-8", "replace")
        return said.lstrip(" \t\n\\") if node.type in ("expansion", "simple_expansion") else said

    def unknown(self, node: Any, because: Text, *, unset: bool = False) -> str:
        """A mark for ``node``."""
        return self.session.parts.mark(self.text(node), because, self.source(node), unset=unset)

    def say_output(self, text: str) -> None:
        """Print ``text`` where output is read."""
        if self.output is not None:
            self.output.append(text)
