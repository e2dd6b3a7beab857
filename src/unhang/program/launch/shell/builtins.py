"""What the shell does itself: ``cd``, ``export``, ``set``, ``shift``, ``source``, ``exit`` and the like."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from unhang.findings import Source
from unhang.knowledge import numbers
from unhang.program.launch.follow_session import ScriptFrame
from unhang.program.launch.shell.conditions import evaluate_test_words
from unhang.program.launch.shell.partly_known_text import is_known, with_marks_empty
from unhang.sentences import say

Builtin = Callable[[ScriptFrame, list[str], Source], bool | None]
_NAME = re.compile(r"[A-Za-z_]\w*")


def _change_folder(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    paths = [word for word in words if word not in ("-P", "-L", "--")]
    target = paths[0] if paths else str(frame.state.value("HOME") or "~")
    if target == "-":
        frame.session.note(say("the folder before is not remembered (cd -)"), source)
        return None
    if not is_known(target):
        written = frame.session.parts.as_written(target)
        frame.session.note(say("which folder cd {path} leads to is not known", path=written), source)
        frame.state.folder = target
        return True
    place = frame.state.place(target)
    if frame.session.is_folder(place) is False and not frame.state.image and not frame.session.may_be_made(place):
        _stay(frame, place, source)
        return None
    frame.state.folder = "" if place == "." else place
    return True


def _stay(frame: ScriptFrame, place: str, source: Source) -> None:
    """The shell says that there is no such folder, and goes on where it is."""
    above = frame.session.find_folder_with(place)
    if above:
        told = say(
            "cd {path}: {path} is not there and the shell stays; start it from {folder}, where that folder is",
            path=place,
            folder=above,
        )
    else:
        told = say("cd {path}: {path} is not there, and the shell stays in the folder it is in", path=place)
    frame.session.note(told, source)


def _set(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:  # noqa: ARG001 - all are called alike
    if "--" in words:
        frame.state.arguments = words[words.index("--") + 1 :]
    elif words and not words[0].startswith(("-", "+")):
        frame.state.arguments = words
    return True


def _shift(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:  # noqa: ARG001
    count = numbers.integer(words[0]) if words else 1
    frame.state.arguments = frame.state.arguments[count or 0 :]
    return True


def _unset(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:  # noqa: ARG001
    for word in words:
        if not word.startswith("-"):
            frame.state.unset(word)
    return True


def _export(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    for word in words:
        name, sign, value = word.partition("=")
        if sign and _NAME.fullmatch(name):
            frame.state.assign(name, value, source, export=True)
        elif _NAME.fullmatch(name):
            frame.state.export(name, source)
    return True


def _read(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    names = [word for word in words if _NAME.fullmatch(word)]
    told = frame.stdin.split("\n")[0].split() if frame.stdin is not None and is_known(frame.stdin) else None
    if "-ra" in words or "-a" in words:
        for name in names[:1]:
            frame.state.assign(name, told if told is not None else [_mark(frame, name, source)], source)
        return True
    for at, name in enumerate(names):
        rest = None if told is None else " ".join(told[at:]) if at == len(names) - 1 else "".join(told[at : at + 1])
        frame.state.assign(name, _mark(frame, name, source) if rest is None else rest, source)
    return True if told is not None else None


def _mark(frame: ScriptFrame, name: str, source: Source) -> str:
    return frame.session.parts.mark(f"${name}", say("only running it tells"), source)


def _ending(how: str) -> Builtin:
    def end(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
        frame.state.ended = how
        if how == "exit":
            frame.session.exits.append(source)
        return with_marks_empty(words[0]) in ("", "0") if words else True

    return end


def _eval(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    from unhang.program.launch.shell.statements import run_text

    text = " ".join(words)
    if not is_known(text.partition(" ")[0]):
        written = frame.session.parts.as_written(text)
        frame.session.note(say("eval of a text that only running tells: {text}", text=written), source)
    return run_text(frame.session, frame.state, text, source)


def _source(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    from unhang.program.launch.shell.statements import run_file

    if not words:
        return False
    path = frame.state.place(words[0]) if is_known(words[0]) else words[0]
    text = frame.session.read(path)
    if text is None:
        written = frame.session.parts.as_written(words[0])
        frame.session.note(say("{path} is sourced and could not be read", path=written), source)
        return None
    kept = frame.state.arguments
    if words[1:]:
        frame.state.arguments = words[1:]
    done = run_file(frame.session, frame.state, path, text)
    frame.state.arguments = kept
    frame.state.ended = "" if frame.state.ended == "return" else frame.state.ended
    return done


def _getopts(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    """The next option of one letter; ``OPTIND`` counts on."""
    if len(words) < 2:
        return False
    letters, name = words[0].lstrip(":"), words[1]
    at = numbers.integer(str(frame.state.value("OPTIND") or "1")) or 1
    given = frame.state.arguments[at - 1] if at <= len(frame.state.arguments) else ""
    if not given.startswith("-") or given in ("-", "--"):
        return False
    letter = given[1]
    takes = f"{letter}:" in letters
    value = given[2:] or (frame.state.arguments[at] if takes and at < len(frame.state.arguments) else "")
    frame.state.assign(name, letter if letter in letters else "?", source)
    frame.state.assign("OPTARG", value if takes else "", source)
    frame.state.assign("OPTIND", str(at + (2 if takes and not given[2:] else 1)), source)
    return True


def _mapfile(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:
    names = [word for word in words if _NAME.fullmatch(word)]
    known = frame.stdin is not None and is_known(frame.stdin)
    if names:
        lines = (frame.stdin or "").splitlines() if known else [_mark(frame, f"{{{names[-1]}[@]}}", source)]
        frame.state.assign(names[-1], lines, source)
    return True


def _true(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:  # noqa: ARG001
    return True


def _false(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:  # noqa: ARG001
    return False


def _test(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:  # noqa: ARG001
    return evaluate_test_words(
        frame, [word for at, word in enumerate(words) if not (word == "]" and at == len(words) - 1)]
    )


def _unknown(frame: ScriptFrame, words: list[str], source: Source) -> bool | None:  # noqa: ARG001
    return None


_BY_NAME: dict[str, Builtin] = {
    "cd": _change_folder,
    "pushd": _change_folder,
    "set": _set,
    "shift": _shift,
    "unset": _unset,
    "export": _export,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "exit": _ending("exit"),
    "return": _ending("return"),
    "break": _ending("break"),
    "continue": _ending("continue"),
    "eval": _eval,
    "source": _source,
    ".": _source,
    "true": _true,
    ":": _true,
    "false": _false,
    "test": _test,
    "[": _test,
    "command": _unknown,
    "type": _unknown,
    "which": _unknown,
    "hash": _unknown,
    "grep": _unknown,
    "getopts": _getopts,
    "trap": _true,
    "ulimit": _true,
    "shopt": _true,
    "wait": _true,
    "alias": _true,
    "umask": _true,
}
TEST_COMMANDS = frozenset(
    {"[", "test", "command", "type", "which", "hash", "grep", "egrep", "pgrep", "diff", "getent", "read"}
)
"""Commands that are asked for their exit status."""


def builtin(words: Sequence[str]) -> Builtin | None:
    """How the shell does ``words``; None for a program. ``command torchrun …`` is the program."""
    if words[0] == "command" and words[1:2] not in ([], ["-v"], ["-V"]):
        return None
    return _BY_NAME.get(words[0])
