"""Commands that start a program of Python: the interpreter, launchers, and console scripts of libraries."""

from __future__ import annotations

import posixpath

from unhang.knowledge.job.launch_commands import TrainingCommand, training_command
from unhang.program.launch.command_words import behind_python_options, launcher_words
from unhang.program.launch.console_scripts import entry_point
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.session import FollowSession, StartedCommand
from unhang.program.launch.shell.state import ShellState
from unhang.program.launch.subprocess_calls import find_started_command
from unhang.sentences import say

_NO_TRAINING = frozenset(("pip", "venv", "ensurepip", "json.tool", "http.server", "ray.scripts", "build", "compileall"))
_PLAIN = frozenset(
    (
        "mkdir",
        "cp",
        "mv",
        "rm",
        "ls",
        "ln",
        "sleep",
        "git",
        "wget",
        "curl",
        "tar",
        "date",
        "kill",
        "pip",
        "tee",
        "tr",
        "sed",
    )
)
"""Parts of the system that are in every script; looking for their source is in vain."""


def program_words(session: FollowSession, command: StartedCommand, text: str | None) -> list[str] | None:
    """The words of ``command``, wrappers taken off, as what they come to in the end; ``text``: of the file they start.

    None where they start no program of Python.
    """
    first, *rest = command.words
    name = posixpath.basename(first)
    if not is_known(first):
        return _not_known(session, command, rest)
    if name.startswith("python") or name == "py":
        behind = behind_python_options(rest)
        trains = behind[:1] not in ([], ["-c"], ["-"]) and not (
            behind[0] == "-m" and behind[1:2] and behind[1] in _NO_TRAINING
        )
        return [first, *rest] if trains else None
    if launcher_words(command.words)[0] is not None:
        return [first, *rest]
    if name.endswith(".py") or (text is not None and "python" in text.partition("\n")[0]):
        return ["python", first, *rest]
    found = _console_script(session, command.state, name, rest)
    return [first, *rest] if found is None and command.source is None else found


def _not_known(session: FollowSession, command: StartedCommand, rest: list[str]) -> list[str] | None:
    """``$LAUNCHER train.py``."""
    at = next((at for at, word in enumerate(rest) if word.endswith(".py")), None)
    if at is None:
        return None
    written = session.parts.as_written(command.words[0])
    session.note(say("what {words} is, which starts {program}", words=written, program=rest[at]), command.source)
    return ["python", *rest[at:]]


def _console_script(session: FollowSession, state: ShellState, name: str, rest: list[str]) -> list[str] | None:
    row = training_command(name, rest[0] if rest else "")
    entry = entry_point(session, state, name) if row is not None or name not in _PLAIN else None
    for path in entry.files() if entry is not None else ():
        text = session.read(path)
        if entry is not None and text is not None:
            found = find_started_command(session, state, entry, path, text, rest)
            if found:
                return found
            break
    if row is not None:
        return _of_row(state, row, rest)
    return None if entry is None else ["python", "-m", entry.module, *rest]


def _of_row(state: ShellState, row: TrainingCommand, rest: list[str]) -> list[str]:
    module = row.module.replace("{verb}", rest[0])
    if row.launcher == "accelerate":
        return ["accelerate", "launch", "-m", module, *rest[1:]]
    count, nodes = (state.value(name) if name else None for name in (row.processes, row.nodes))
    if not isinstance(count, str) or not count:
        return [row.names[0], *rest] if row.launcher == "llamafactory" else ["python", "-m", module, *rest[1:]]
    several = ["--nnodes", nodes] if isinstance(nodes, str) and nodes else []
    return ["torchrun", *several, "--nproc_per_node", count, "-m", module, *rest[1:]]
