"""Commands that start a program of Python: the interpreter, launchers, and console scripts of libraries."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from unhang.findings import Source
from unhang.knowledge.job.launch_commands import TrainingCommand, training_command
from unhang.program.launch.command_words import behind_python_options, launcher_words
from unhang.program.launch.console_scripts import EntryPoint, entry_point
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.session import FollowSession
from unhang.program.launch.shell.state import ShellState
from unhang.program.launch.subprocess_calls import find_started_command
from unhang.sentences import say

_NO_TRAINING = frozenset(("pip", "venv", "ensurepip", "json.tool", "http.server", "ray.scripts", "build", "compileall"))


def program_words(
    session: FollowSession, state: ShellState, words: Sequence[str], source: Source | None, text: str | None
) -> list[str] | None:
    """``words`` as what they come to in the end; None where they start no program of Python.

    Args:
        session: what is followed.
        state: of the shell that starts them.
        words: of the command, wrappers taken off.
        source: where they stand; None where the user types them.
        text: of the file that is started, where it is one.
    """
    first, rest = words[0], list(words[1:])
    name = posixpath.basename(first)
    if not is_known(first):
        return _not_known(session, first, rest, source)
    if name.startswith("python") or name == "py":
        return _python(list(words))
    if launcher_words(words)[0] is not None:
        return list(words)
    if name.endswith(".py") or (text is not None and "python" in text.partition("\n")[0]):
        return ["python", *words]
    found = _console_script(session, state, name, rest)
    return list(words) if found is None and source is None else found


def _python(words: list[str]) -> list[str] | None:
    rest = behind_python_options(words[1:])
    if not rest or rest[0] in ("-c", "-") or (rest[0] == "-m" and rest[1:2] and rest[1] in _NO_TRAINING):
        return None
    return words


def _not_known(session: FollowSession, first: str, rest: list[str], source: Source | None) -> list[str] | None:
    at = next((at for at, word in enumerate(rest) if word.endswith(".py")), None)
    written = session.parts.as_written(first)
    if at is None:
        return None
    session.note(say("what {words} is, which starts {program}", words=written, program=rest[at]), source)
    return ["python", *rest[at:]]


def _console_script(session: FollowSession, state: ShellState, name: str, rest: list[str]) -> list[str] | None:
    row = training_command(name, rest[0] if rest else "")
    entry = entry_point(session, state, name) if row is not None or not _is_plain(name) else None
    if entry is not None:
        for path in entry.files():
            text = session.read(path)
            if text is not None:
                found = find_started_command(session, state, entry, path, text, rest)
                return found or (_of_row(state, row, rest) if row is not None else _function(entry, rest))
    if row is not None:
        return _of_row(state, row, rest)
    return None if entry is None else _function(entry, rest)


def _is_plain(name: str) -> bool:
    """A part of the system that is in every script; looking for its source is in vain."""
    return name in ("mkdir", "cp", "mv", "rm", "ls", "ln", "sleep", "git", "wget", "curl", "tar", "date", "kill", "pip")


def _function(entry: EntryPoint, rest: list[str]) -> list[str]:
    return ["python", "-m", entry.module, *rest]


def _of_row(state: ShellState, row: TrainingCommand, rest: list[str]) -> list[str]:
    module = row.module.replace("{verb}", rest[0])
    if row.launcher == "accelerate":
        return ["accelerate", "launch", "-m", module, *rest[1:]]
    count, nodes = (state.value(name) if name else None for name in (row.processes, row.nodes))
    if not isinstance(count, str) or not count:
        return [row.names[0], *rest] if row.launcher == "llamafactory" else ["python", "-m", module, *rest[1:]]
    several = ["--nnodes", nodes] if isinstance(nodes, str) and nodes else []
    return ["torchrun", *several, "--nproc_per_node", count, "-m", module, *rest[1:]]
