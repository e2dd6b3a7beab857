"""From the words of a command to the program: what stands in front of it is taken off, one after the other."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from unhang.findings import Source
from unhang.knowledge.job.launch_commands import CommandWrapper, wrapper_of
from unhang.program.launch import kubernetes_manifests, slurm_scripts
from unhang.program.launch.follow_session import MAX_DEPTH, FollowSession, ProgramStart
from unhang.program.launch.python_commands import LAUNCHERS, program_words
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.state import OuterLauncher, ShellState
from unhang.program.launch.shell.statements import run_file, run_text
from unhang.sentences import Text, say

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash"})
Follow = Callable[[FollowSession, ShellState, list[str], Source | None, str | None], None]
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_TYPED = Source("command")


def follow_words(
    session: FollowSession, state: ShellState, words: Sequence[str], source: Source | None, *, stdin: str | None = None
) -> None:
    """Follow ``words``, which ``state`` starts at ``source``; None: the user types them."""
    state, rest = state.copy(), list(words)
    for _ in range(MAX_DEPTH):
        rest = _without_unset(session, _assigned(state, rest, source))
        if not rest:
            return
        name = posixpath.basename(rest[0])
        for names, follow in _FOLLOWED_APART:
            if name in names:
                follow(session, state, rest, source, stdin)
                return
        wrapper = wrapper_of(name, rest[1] if len(rest) > 1 else "")
        if wrapper is None:
            break
        state.image = state.image or _image(wrapper, rest)
        rest = _unwrapped(session, state, wrapper, rest, source)
        if wrapper.joined:
            run_text(session, state.copy(), " ".join(rest), source)
            return
        if wrapper.python and rest and rest[0].endswith(".py"):
            rest = ["python", *rest]
    _last(session, state, rest, source)


def _without_unset(session: FollowSession, words: list[str]) -> list[str]:
    """``$LAUNCHER python …`` where nobody set it."""
    while words and session.parts.is_only_unset(words[0]):
        for part in session.parts.inside(words[0]) if len(words) > 1 else ():
            session.note(say("{what}: {because}", what=part.text, because=part.because), part.source)
        words = words[1:]
    return words


def _last(session: FollowSession, state: ShellState, words: list[str], source: Source | None) -> None:
    """What is left: a script of the shell, or the program."""
    if not words:
        return
    path, name = state.place(words[0]), posixpath.basename(words[0])
    is_path = "/" in words[0] or words[0].endswith(".sh")
    text = session.read(path) if is_path and not words[0].endswith(".py") else None
    if text is not None and _is_shell(words[0], text):
        _script(session, state, words[0], words[1:], text)
    elif (found := program_words(session, state, words, source, text)) is not None and not _passes_command_on(found):
        if posixpath.basename(found[0]) != name and not name.startswith("python"):
            state.trail = (*state.trail, words[0])
        session.starts.append(ProgramStart(tuple(found), state, source))
    elif "--" in words and _starts_training(words[words.index("--") + 1 :]):
        _note_remote_run(session, state, words, source)
    elif text is None and words[0].endswith(".sh"):
        session.note(_absent(session, path), source)
    elif state.outer and state.outer[-1].name != "sbatch":
        session.note(say("{program} is no program of Python", program=session.parts.as_written(words[0])), source)


def _absent(session: FollowSession, path: str) -> Text:
    written = session.parts.as_written(path)
    if is_known(path):
        return say("{path} is not there", path=path)
    return say("which script {path} is, only running tells", path=written)


def _starts_training(words: list[str]) -> bool:
    """``torchrun …``, also behind wrappers and variables."""
    return any(posixpath.basename(word) in LAUNCHERS or word == "torch.distributed.run" for word in words[:6])


def _passes_command_on(words: list[str]) -> bool:
    """``python submit.py --gpus 8 -- torchrun train.py``: a program that has the command behind it run somewhere."""
    return words[0].startswith("python") and "--" in words and _starts_training(words[words.index("--") + 1 :])


def _note_remote_run(session: FollowSession, state: ShellState, words: list[str], source: Source | None) -> None:
    name = " ".join(words[: 2 if words[0].startswith("python") else 1])
    session.note(say("{name} has the program run elsewhere; what it sets there is not known", name=name), source)
    state.trail, state.image = (*state.trail, name), name
    follow_words(session, state, words[words.index("--") + 1 :], source or _TYPED)


def _is_shell(name: str, text: str) -> bool:
    first = text.partition("\n")[0]
    named = any(re.search(rf"\b{shell}\b", first) for shell in SHELLS)
    return named if first.startswith("#!") else name.endswith((".sh", ".bash", ".slurm", ".sbatch"))


def _assigned(state: ShellState, words: list[str], source: Source | None) -> list[str]:
    """Words before the command set variables: ``A=b torchrun …``."""
    while words and (found := _ASSIGNMENT.fullmatch(words[0])):
        state.assign(found[1], found[2], source or _TYPED, export=True)
        words = words[1:]
    return words


def _shell(
    session: FollowSession, state: ShellState, words: list[str], source: Source | None, stdin: str | None
) -> None:
    """``bash -x run.sh ARGS``, ``sh -c TEXT``, ``bash < job.sh``."""
    rest = words[1:]
    while rest and rest[0].startswith(("-", "+")) and not rest[0].endswith("c"):
        if rest[0] in ("-o", "-O", "--rcfile", "--init-file"):
            rest = rest[1:]
        rest = rest[1:]
    if rest and rest[0].startswith("-"):
        inner = state.child("", rest[3:])
        inner.script = rest[2] if len(rest) > 2 else posixpath.basename(words[0])
        run_text(session, inner, rest[1] if len(rest) > 1 else "", source)
    elif rest:
        text = session.read(state.place(rest[0]))
        if text is None:
            session.note(_absent(session, state.place(rest[0])), source)
        else:
            _script(session, state, rest[0], rest[1:], text)
    elif stdin is not None:
        run_text(session, state.child("", []), stdin, source)


def _script(session: FollowSession, state: ShellState, name: str, arguments: list[str], text: str) -> None:
    child = state.child(name, arguments)
    run_file(session, child, state.place(name), text)


def _image(wrapper: CommandWrapper, words: list[str]) -> str:
    """The container's image, or the host, whose contents are not looked at."""
    if not wrapper.apart:
        return ""
    rest = _behind_options(wrapper, _behind_verb(wrapper, words))[1]
    return f"{wrapper.apart}: {rest[0]}" if wrapper.words and rest else wrapper.apart


def _behind_verb(wrapper: CommandWrapper, words: list[str]) -> list[str]:
    verb = words[1] if len(words) > 1 and words[1] in wrapper.verbs else ""
    return words[2:] if verb else words[1:]


def _unwrapped(
    session: FollowSession, state: ShellState, wrapper: CommandWrapper, words: list[str], source: Source | None
) -> list[str]:
    if wrapper.ends:
        return words[words.index(wrapper.ends) + 1 :] if wrapper.ends in words else []
    options, rest = _behind_options(wrapper, _behind_verb(wrapper, words))
    if wrapper.outer and not rest:
        return []
    folder = next((value for name, value in options if name in wrapper.folder and is_known(value)), "")
    for name, value in options:
        exported = value.split(",") if name == "--export" and wrapper.outer else ()
        for one in [value] if name in wrapper.sets else exported:
            _assigned(state, [one], source)
    if wrapper.apart:
        mounts = [value for name, value in options if name in wrapper.mount]
        _inside(state, folder, mounts)
        state.trail = (*state.trail, " ".join([posixpath.basename(words[0]), *rest[: wrapper.words]]))
    elif folder:
        state.folder = state.place(folder)
    if wrapper.outer:
        told = {name.lstrip("-").replace("-", "_"): session.parts.as_written(value) for name, value in options}
        state.outer = (*state.outer, OuterLauncher(posixpath.basename(words[0]), told))
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


def _behind_options(wrapper: CommandWrapper, words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The options in front, with their values, and the rest."""
    found: list[tuple[str, str]] = []
    while words and words[0].startswith("-") and words[0] != "-":
        word, words = words[0], words[1:]
        if word == "--":
            break
        name, sign, value = word.partition("=")
        short = word[:2]
        if sign and name.startswith("--"):
            found.append((name, value))
        elif wrapper.values(word):
            count = wrapper.values(word)
            found.append((word, " ".join(words[:count])))
            words = words[count:]
        elif not word.startswith("--") and len(word) > 2 and wrapper.values(short) and wrapper.takes | wrapper.flags:
            if word in wrapper.flags or (wrapper.takes and short not in wrapper.takes | wrapper.sets | wrapper.mount):
                found.append((word, "true"))
            else:
                found.append((short, word[2:].lstrip("=")))
        else:
            found.append((word, "true"))
    return found, words


_FOLLOWED_APART: tuple[tuple[frozenset[str], Follow], ...] = (
    (SHELLS, _shell),
    (frozenset({"sbatch"}), slurm_scripts.follow_sbatch),
    (frozenset({"kubectl", "oc"}), kubernetes_manifests.follow_manifests),
)
