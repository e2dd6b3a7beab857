"""What the shell does itself: ``cd``, ``export``, ``set``, ``shift``, ``exit`` and the like, and small programs that
print nothing but text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from itertools import zip_longest

from unhang.knowledge import numbers
from unhang.program.launch.shell.arithmetic import evaluate_arithmetic
from unhang.program.launch.shell.conditions import evaluate_test
from unhang.program.launch.shell.parameters import printed_folder
from unhang.program.launch.shell.partly_known_text import is_known, with_marks_empty
from unhang.program.launch.shell.session import ScriptFrame
from unhang.sentences import say

Builtin = Callable[[ScriptFrame, list[str]], bool | None]
_NAME = re.compile(r"[A-Za-z_]\w*")


def _change_folder(frame: ScriptFrame, words: list[str]) -> bool | None:
    paths = [word for word in words if word not in ("-P", "-L", "--")]
    target = paths[0] if paths else str(frame.state.value("HOME") or "~")
    if target == "-":
        frame.session.note(say("unhang does not know the previous folder (cd -)"), frame.at)
        return None
    if not is_known(target):
        written = frame.session.parts.as_written(target)
        frame.session.note(say("the folder that cd {path} leads to is not known", path=written), frame.at)
        frame.state.folder = target
        return True
    place = frame.state.place(target)
    if frame.session.is_folder(place) is False and not frame.state.image and not frame.session.may_be_made(place):
        _stay(frame, place)
        return None
    frame.state.folder = "" if place == "." else place
    return True


def _stay(frame: ScriptFrame, place: str) -> None:
    """The shell says that there is no such folder, and goes on where it is."""
    above = frame.session.find_folder_with(place)
    if above:
        told = say(
            "cd {path} fails, because {path} does not exist here; start the command from {folder}, where it does",
            path=place,
            folder=above,
        )
    else:
        told = say("cd {path} fails, because {path} does not exist, and the shell stays in its folder", path=place)
    frame.session.note(told, frame.at)


def _set(frame: ScriptFrame, words: list[str]) -> bool | None:
    if "--" in words:
        frame.state.arguments = words[words.index("--") + 1 :]
    elif words and not words[0].startswith(("-", "+")):
        frame.state.arguments = words
    return True


def _shift(frame: ScriptFrame, words: list[str]) -> bool | None:
    count = numbers.integer(words[0]) if words else 1
    if frame.state.arguments:
        kept = [frame.unknown_variable("@", frame.at)] if count is None else frame.state.arguments[count:]
        frame.state.arguments = kept
    return True


def export_words(frame: ScriptFrame, words: list[str]) -> bool | None:
    """``export A=b C``."""
    for word in words:
        name, sign, value = word.partition("=")
        if sign and _NAME.fullmatch(name):
            frame.state.assign(name, value, frame.at, export=True)
        else:
            frame.state.export(name)
    return True


def _read(frame: ScriptFrame, words: list[str]) -> bool | None:
    """``read -r a b <<< "x y"``, ``IFS=, read -ra LIST``; each takes one line."""
    names = [word for word in words if _NAME.fullmatch(word)] or ["REPLY"]
    if frame.stdin is None or not is_known(frame.stdin):
        return _unknown_variables(frame, names)
    if not frame.stdin:
        return False
    line, _, frame.stdin = frame.stdin.partition("\n")
    held = frame.state.value("IFS")
    apart = held if isinstance(held, str) and len(held) == 1 else None
    if any(re.fullmatch(r"-\w*a", word) for word in words):
        frame.state.assign(names[0], line.split(apart), frame.at)
        return True
    for name, value in zip_longest(names, line.split(apart, len(names) - 1), fillvalue=""):
        frame.state.assign(name, value, frame.at)
    return True


def _options(frame: ScriptFrame, words: list[str]) -> bool | None:
    """``getopts``: nothing is there where there are no arguments; the rest is left to running."""
    return _unknown_variables(frame, [*words[1:2], "OPTARG", "OPTIND"]) if frame.state.arguments else False


def _lines(frame: ScriptFrame, words: list[str]) -> bool | None:
    return _unknown_variables(frame, [word for word in words if _NAME.fullmatch(word)])


def _unknown_variables(frame: ScriptFrame, names: Sequence[str]) -> bool | None:
    for name in names:
        frame.state.assign(name, frame.unknown_variable(name, frame.at), frame.at)
    return None


def _ending(how: str) -> Builtin:
    def end(frame: ScriptFrame, words: list[str]) -> bool | None:
        frame.state.ended = how
        if how == "exit":
            frame.session.exits.append(frame.at)
        return with_marks_empty(words[0]) in ("", "0") if words else True

    return end


def _test(frame: ScriptFrame, words: list[str]) -> bool | None:
    return evaluate_test(frame, words[:-1] if words[-1:] == ["]"] else words)


def _status(status: bool | None, output: str | None = "") -> Builtin:
    def done(frame: ScriptFrame, words: list[str]) -> bool | None:  # noqa: ARG001
        frame.say_output(output)
        return status

    return done


def _echo(frame: ScriptFrame, words: list[str]) -> bool:
    end = "\n"
    while words and re.fullmatch(r"-[neE]+", words[0]):
        end = "" if "n" in words[0] else end
        words = words[1:]
    return frame.say_output(" ".join(words) + end)


def _cat(frame: ScriptFrame, words: list[str]) -> bool:
    for text in [frame.session.read(frame.state.place(word)) for word in words] or [frame.stdin]:
        frame.say_output(text)
    return True


def _pwd(frame: ScriptFrame, words: list[str]) -> bool:  # noqa: ARG001
    return frame.say_output(f"{printed_folder(frame)}\n")


def _dirname(frame: ScriptFrame, words: list[str]) -> bool:
    known = words and is_known(words[-1])
    return frame.say_output(f"{posixpath.dirname(words[-1]) or '.'}\n" if known else None)


def _basename(frame: ScriptFrame, words: list[str]) -> bool:
    if not words or not all(map(is_known, words)):
        return frame.say_output(None)
    name = posixpath.basename(words[0].rstrip("/"))
    return frame.say_output(f"{name.removesuffix(words[1]) if len(words) > 1 else name}\n")


def _realpath(frame: ScriptFrame, words: list[str]) -> bool:
    paths = [word for word in words if not word.startswith("-")]
    known = len(paths) == 1 and is_known(paths[0])
    return frame.say_output(f"{frame.session.absolute(frame.state.place(paths[0]))}\n" if known else None)


def _expr(frame: ScriptFrame, words: list[str]) -> bool:
    number = evaluate_arithmetic(" ".join(words), frame.state) if all(map(is_known, words)) else None
    return frame.say_output(None if number is None else f"{number}\n")


_ASKED = ("command", "type", "which", "hash", "grep")
TEST_COMMANDS = frozenset({"[", "test", *_ASKED, "egrep", "pgrep", "diff", "getent", "read"})
"""Commands that are asked for their exit status."""
_BY_NAME: dict[str, Builtin] = {
    **dict.fromkeys(("cd", "pushd"), _change_folder),
    "set": _set,
    "shift": _shift,
    "export": export_words,
    "read": _read,
    **dict.fromkeys(("mapfile", "readarray"), _lines),
    "getopts": _options,
    **{how: _ending(how) for how in ("exit", "return", "break", "continue")},
    **dict.fromkeys(("true", ":", "trap", "ulimit", "shopt", "wait", "alias", "umask"), _status(True)),
    "false": _status(False),
    **dict.fromkeys(("test", "["), _test),
    **dict.fromkeys(_ASKED, _status(None, None)),
    "echo": _echo,
    "pwd": _pwd,
    "cat": _cat,
    "dirname": _dirname,
    "basename": _basename,
    **dict.fromkeys(("realpath", "readlink"), _realpath),
    "expr": _expr,
}


def builtin(words: Sequence[str]) -> Builtin | None:
    """How the shell does ``words``; None for a program. ``command torchrun …`` is the program."""
    if words[0] == "command" and words[1:2] not in ([], ["-v"], ["-V"]):
        return None
    return _BY_NAME.get(words[0])
