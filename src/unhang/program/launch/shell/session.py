"""What is shared while one command is followed: files, marks, commands that wait to be followed, what stays unknown."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from unhang.findings import Source
from unhang.host.machine import Machine
from unhang.program.launch.launch import NotUnderstood
from unhang.program.launch.shell.partly_known_text import UnknownParts, is_known, without_marks
from unhang.program.launch.shell.state import INHERITED, ShellState
from unhang.sentences import Text, say

MAX_STEPS, MAX_DEPTH = 20_000, 24


@dataclass(frozen=True, slots=True)
class StartedCommand:
    """Words that ``state`` starts at ``source``; None: the user types them. ``stdin``: what they read, if known."""

    words: tuple[str, ...]
    state: ShellState
    source: Source | None
    stdin: str | None = None


@dataclass(slots=True)
class FollowSession:
    """What following one command found so far."""

    machine: Machine
    parts: UnknownParts = field(default_factory=UnknownParts)
    commands: list[StartedCommand] = field(default_factory=list)
    """What scripts start, in their order; not followed yet."""
    notes: dict[NotUnderstood, None] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    """Files that the scripts themselves make."""
    touched: Counter[str] = field(default_factory=Counter)
    """What programs of the script were given, and how often: such a file may be there by then."""
    exits: list[Source] = field(default_factory=list)
    """Where a script ends itself."""
    steps: int = 0

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
            self.note(say("more than {count} steps: unhang did not follow the rest", count=MAX_STEPS))
        return self.steps < MAX_STEPS


Run = Callable[["ScriptFrame", Any], bool | None]
"""Go through one statement: whether it succeeds; None where that is not known."""


@dataclass(slots=True)
class ScriptFrame:
    """One script, function or substitution while it is gone through."""

    session: FollowSession
    state: ShellState
    file: str
    code: bytes
    run: Run
    stdin: str | None = None
    output: list[str | None] | None = None
    """What is printed, None in it for what a program prints; None where nobody reads it."""
    line: int | None = None
    """Of the file, where the code is a text inside it."""
    at: Source = INHERITED
    """Of the command that is gone through."""
    assigning: str = ""
    """The variable whose new value is being read."""

    def source(self, node: Any) -> Source:
        """Where ``node`` stands."""
        return Source(self.file, self.line or node.start_point[0] + 1)

    def text(self, node: Any) -> str:
        """The source text of ``node``."""
        said = self.code[node.start_byte : node.end_byte].decode("utf-8", "replace")
        return said.lstrip(" \t\n\\") if node.type in ("expansion", "simple_expansion") else said

    def unknown(self, node: Any, because: Text | None = None, *, unset: bool = False) -> str:
        """A mark for ``node``."""
        because = because or say("known only at run time")
        return self.session.parts.mark(self.text(node), because, self.source(node), unset=unset)

    def unknown_variable(self, name: str, source: Source) -> str:
        """A mark for what the variable ``name`` holds from ``source`` on."""
        return self.session.parts.mark(f"${name}", say("known only at run time"), source)

    def say_output(self, text: str | None) -> bool:
        """Print ``text`` where output is read; None: something that only running tells. It succeeds."""
        if self.output is not None:
            self.output.append(text)
        return True

    def printed(self) -> str | None:
        """All of the output; None where a part of it is not known."""
        parts = [part for part in self.output or () if part is not None]
        return "".join(parts) if len(parts) == len(self.output or ()) else None
