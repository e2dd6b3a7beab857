"""From the words of a command to the program: what stands in front of it is taken off, one after the other."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import replace

from unhang.findings import Source
from unhang.knowledge.job.launch_commands import CommandWrapper, wrapper_of
from unhang.program.launch.command_words import ASSIGNMENT, launcher_words, plain_name, unwrap
from unhang.program.launch.kubernetes_manifests import follow_manifests
from unhang.program.launch.python_commands import program_words
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.session import MAX_DEPTH, FollowSession, StartedCommand
from unhang.program.launch.shell.state import OuterLauncher, ShellState
from unhang.program.launch.shell.statements import read_script
from unhang.program.launch.slurm_scripts import follow_sbatch
from unhang.sentences import Text, say

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash"})
_TYPED = Source("command")


def find_starts(session: FollowSession, command: StartedCommand) -> list[StartedCommand]:
    """Every program of Python that ``command`` starts, as far as its scripts lead; what they start waits its turn."""
    starts, waiting = [], [command]
    while waiting:
        start = _follow(session, waiting.pop())
        if start is not None:
            starts.append(start)
        waiting += reversed(session.commands)
        session.commands.clear()
    return starts


def _follow(session: FollowSession, command: StartedCommand) -> StartedCommand | None:
    """The program that ``command`` is behind its wrappers; None where it is a script, or something else."""
    state, rest, source = command.state.copy(), list(command.words), command.source
    for _ in range(MAX_DEPTH):
        rest = _without_unset(session, _assigned(state, rest, source))
        if not rest:
            return None
        name = posixpath.basename(rest[0])
        if name in _READ_APART:
            _READ_APART[name](session, replace(command, words=tuple(rest), state=state))
            return None
        wrapper = wrapper_of(name, rest[1] if len(rest) > 1 else "")
        if wrapper is None:
            break
        rest = _unwrapped(session, state, wrapper, rest, source)
        if wrapper.joined:
            read_script(session, state, " ".join(rest), source or _TYPED)
            return None
        if wrapper.python and rest and rest[0].endswith(".py"):
            rest = ["python", *rest]
    is_launched = state.outer != command.state.outer
    return _last(session, replace(command, words=tuple(rest), state=state), is_launched=is_launched) if rest else None


def _without_unset(session: FollowSession, words: list[str]) -> list[str]:
    """``$LAUNCHER python …`` where nobody set it."""
    while words and session.parts.is_only_unset(words[0]):
        for part in session.parts.inside(words[0]) if len(words) > 1 else ():
            session.note(say("{what}: {because}", what=part.text, because=part.because), part.source)
        words = words[1:]
    return words


def _last(session: FollowSession, command: StartedCommand, *, is_launched: bool) -> StartedCommand | None:
    """What is left: a script of the shell, or the program."""
    state, (first, *rest), source = command.state, command.words, command.source
    path, name = state.place(first), posixpath.basename(first)
    text = session.read(path) if ("/" in first or first.endswith(".sh")) and not first.endswith(".py") else None
    if text is not None and _is_shell(first, text):
        read_script(session, state.child(first, rest), text, Source(path))
        return None
    found = program_words(session, command, text)
    behind = rest[rest.index("--") + 1 :] if "--" in rest else []
    if _starts_training(behind) and (found is None or found[0].startswith("python")):
        _note_remote_run(session, command, behind)
    elif found is not None:
        if posixpath.basename(found[0]) != name and not name.startswith("python"):
            state.trail = (*state.trail, first)
        return replace(command, words=tuple(found))
    elif text is None and first.endswith(".sh"):
        session.note(_absent(session, path), source)
    elif is_launched:
        session.note(say("{program} is no program of Python", program=session.parts.as_written(first)), source)
    return None


def _absent(session: FollowSession, path: str) -> Text:
    if is_known(path):
        return say("{path} is not there", path=path)
    return say("which script {path} is, only running tells", path=session.parts.as_written(path))


def _starts_training(words: list[str]) -> bool:
    """``torchrun …``, also behind wrappers and variables."""
    return any(launcher_words(words[at:6])[0] is not None for at in range(min(len(words), 6)))


def _note_remote_run(session: FollowSession, command: StartedCommand, behind: list[str]) -> None:
    """``python submit.py --gpus 8 -- torchrun train.py``: a program that has the command behind it run somewhere."""
    state, name = command.state, " ".join(command.words[: 2 if command.words[0].startswith("python") else 1])
    note = say("{name} has the program run elsewhere; what it sets there is not known", name=name)
    session.note(note, command.source)
    state.trail, state.image = (*state.trail, name), name
    session.commands.append(StartedCommand(tuple(behind), state, command.source or _TYPED))


def _is_shell(name: str, text: str) -> bool:
    first = text.partition("\n")[0]
    named = any(re.search(rf"\b{shell}\b", first) for shell in SHELLS)
    return named if first.startswith("#!") else name.endswith((".sh", ".bash", ".slurm", ".sbatch"))


def _assigned(state: ShellState, words: list[str], source: Source | None) -> list[str]:
    """Words before the command set variables: ``A=b torchrun …``."""
    while words and (found := ASSIGNMENT.fullmatch(words[0])):
        state.assign(found[1], found[2], source or _TYPED, export=True)
        words = words[1:]
    return words


def _follow_shell(session: FollowSession, command: StartedCommand) -> None:
    """``bash -x run.sh ARGS``, ``sh -c TEXT``, ``bash < job.sh``."""
    state, source, (shell, *rest) = command.state, command.source or _TYPED, command.words
    while rest and rest[0].startswith(("-", "+")) and not rest[0].endswith("c"):
        rest = rest[2 if rest[0] in ("-o", "-O", "--rcfile", "--init-file") else 1 :]
    if rest and rest[0].startswith("-"):
        inner = state.child("", rest[3:])
        inner.script = rest[2] if len(rest) > 2 else posixpath.basename(shell)
        read_script(session, inner, rest[1] if len(rest) > 1 else "", source)
    elif rest:
        path = state.place(rest[0])
        text = session.read(path)
        if text is None:
            session.note(_absent(session, path), command.source)
        else:
            read_script(session, state.child(rest[0], rest[1:]), text, Source(path))
    elif command.stdin is not None:
        read_script(session, state.child("", []), command.stdin, source)


def _unwrapped(
    session: FollowSession, state: ShellState, wrapper: CommandWrapper, words: list[str], source: Source | None
) -> list[str]:
    """The words behind ``wrapper``, whose options ``state`` takes in."""
    name, (options, rest) = posixpath.basename(words[0]), unwrap(wrapper, words)
    if wrapper.apart and not state.image:
        state.image = f"{wrapper.apart}: {rest[0]}" if wrapper.words and rest else wrapper.apart
    if wrapper.outer and not rest:
        return []
    folder = next((value for option, value in options if option in wrapper.folder and is_known(value)), "")
    given = [value for option, value in options if option in wrapper.sets]
    given += [one for option, value in options if option == "--export" and wrapper.outer for one in value.split(",")]
    for one in given:
        _assigned(state, [one], source)
    if wrapper.apart:
        _inside(state, folder, [value for option, value in options if option in wrapper.mount])
        state.trail = (*state.trail, " ".join([name, *rest[: wrapper.words]]))
    elif folder:
        state.folder = state.place(folder)
    if wrapper.outer:
        told = {plain_name(option): session.parts.as_written(value) for option, value in options}
        state.outer = (*state.outer, OuterLauncher(name, told))
    return rest[wrapper.words :]


def _inside(state: ShellState, folder: str, mounts: list[str]) -> None:
    """A folder of the container that is one of ours, mounted there."""
    for mount in mounts:
        ours, _, theirs = mount.partition(":")
        theirs = theirs.partition(":")[0] or ours
        if folder and is_known(mount) and (folder == theirs or folder.startswith(theirs.rstrip("/") + "/")):
            state.folder = posixpath.normpath(state.place(ours) + "/" + folder[len(theirs) :].lstrip("/"))
            return
    state.folder = folder or state.folder


_READ_APART: dict[str, Callable[[FollowSession, StartedCommand], None]] = {
    **dict.fromkeys(SHELLS, _follow_shell),
    "sbatch": follow_sbatch,
    **dict.fromkeys(("kubectl", "oc"), follow_manifests),
}
