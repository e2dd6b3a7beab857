"""``$X``, ``${X:-default}``, ``${X##*/}``, ``${ARGS[@]}`` and what else stands behind a dollar."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import Any

from unhang.findings import Source
from unhang.program.launch.follow_session import ScriptFrame
from unhang.program.launch.shell.arithmetic import evaluate_arithmetic
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.state import ShellValue
from unhang.sentences import say

Words = Callable[[ScriptFrame, Any], str]
_OF_SCHEDULER = (("SLURM_", ("srun", "sbatch", "salloc")), ("OMPI_", ("mpirun",)), ("PMI_", ("mpirun",)))
MAX_MATCHED = 4096
"""Characters that are held against a pattern at each place."""
_CHANGING = {"#", "##", "%", "%%", "/", "//", "^", "^^", ",", ",,", ":"}


def expand_parameter(frame: ScriptFrame, node: Any, words: Words) -> tuple[ShellValue, bool]:
    """The value, and for a list whether its parts stay apart (``@``). Marks stand for what is not known."""
    inner = [child for child in node.named_children if child.type != "comment"]
    if not inner:
        return frame.unknown(node, say("only running it tells")), False
    subject, rest = inner[0], inner[1:]
    name, index = _subject(frame, subject)
    signs = [child.type for child in node.children if not child.is_named and child.type not in ("${", "}", "$")]
    value = _held(frame, name, index)
    if frame.text(node).startswith("${#") and frame.text(node) != "${#}":
        size = None if value is None else len(value) if isinstance(value, list) or is_known(value) else -1
        return str(size or 0) if size != -1 else frame.unknown(node, say("only running it tells")), False
    if signs[:1] == ["!"]:
        pointed = frame.state.value(value) if isinstance(value, str) else None
        value, signs = pointed, signs[1:]
    operator = next((sign for sign in signs if sign in _CHANGING or sign.lstrip(":") in ("-", "=", "+", "?")), "")
    if operator.lstrip(":") in ("-", "=", "+", "?") and operator != ":":
        return _default(frame, node, name, value, operator, rest, words), index == "@"
    if value is None:
        return _absent(frame, node, name), False
    if operator == ":":
        return _slice(frame, node, value, rest, words), index == "@"
    if operator:
        return _changed(frame, node, value, operator, rest, words), index == "@"
    return value, index == "@"


def _subject(frame: ScriptFrame, node: Any) -> tuple[str, str]:
    if node.type == "subscript":
        name, *index = (frame.text(child) for child in node.named_children)
        return name, index[0] if index else "0"
    name = frame.text(node)
    return name, name if name in "@*" else ""


def _held(frame: ScriptFrame, name: str, index: str) -> ShellValue | None:
    state = frame.state
    if name in _SPECIAL:
        return _SPECIAL[name](frame)
    if name == "?":
        return "0"
    if name.isdigit():
        at = int(name) - 1
        return state.script if at < 0 else state.arguments[at] if at < len(state.arguments) else None
    if name in _CHANGES:
        return frame.session.parts.mark(f"${name}", say("only running it tells"), Source(frame.file))
    value = state.value(name)
    if isinstance(value, list) and index not in ("@", "*"):
        at_index = int(index) if index.lstrip("-").isdigit() else evaluate_arithmetic(index, state) if index else 0
        return value[at_index] if at_index is not None and -len(value) <= at_index < len(value) else None
    if isinstance(value, str) and index in ("@", "*"):
        return [value]
    return value


def _count(frame: ScriptFrame) -> str:
    known = all(map(is_known, frame.state.arguments))
    mark = frame.session.parts.mark("$#", say("only running it tells"), Source(frame.file))
    return str(len(frame.state.arguments)) if known else mark


def _folder(frame: ScriptFrame) -> str:
    return frame.session.absolute(frame.state.folder) if is_known(frame.state.folder) else frame.state.folder


_CHANGES = frozenset(("$", "!", "RANDOM", "SECONDS", "LINENO", "-", "_"))
_SPECIAL: dict[str, Callable[[ScriptFrame], ShellValue]] = {
    "@": lambda frame: list(frame.state.arguments),
    "*": lambda frame: list(frame.state.arguments),
    "#": _count,
    "BASH_SOURCE": lambda frame: frame.file,
    "PWD": _folder,
    "OLDPWD": _folder,
}


def _absent(frame: ScriptFrame, node: Any, name: str) -> ShellValue:
    if name in ("@", "*"):
        return []
    outer = {one.name for one in frame.state.outer}
    for prefix, who in _OF_SCHEDULER:
        setter = next((one for one in who if one in outer), "")
        if name.startswith(prefix) and setter:
            return frame.unknown(node, say("{launcher} sets it when it starts the job", launcher=setter))
    if name.isdigit():
        return frame.unknown(node, say("the script was given no such argument"), unset=True)
    if name in frame.state.removed or name == frame.assigning:  # PATH=$PATH:more
        return ""
    return frame.unknown(node, say("{name} is not set here", name=name), unset=True)


def _default(
    frame: ScriptFrame, node: Any, name: str, value: ShellValue | None, operator: str, rest: Any, words: Words
) -> ShellValue:
    empty = value is None or (operator.startswith(":") and not value)
    kind = operator.lstrip(":")
    if isinstance(value, str) and not is_known(value) and kind != "+":
        return value
    if kind == "?":
        return _absent(frame, node, name) if empty else value or ""
    if kind == "+":
        return "" if empty else "".join(words(frame, one) for one in rest)
    if not empty:
        return value or ""
    default = "".join(words(frame, one) for one in rest)
    if kind == "=":
        frame.state.assign(name, default, frame.source(node))
    return default


def _slice(frame: ScriptFrame, node: Any, value: ShellValue, rest: Any, words: Words) -> ShellValue:
    numbers = [evaluate_arithmetic(words(frame, one), frame.state) for one in rest]
    if not numbers or None in numbers or (isinstance(value, str) and not is_known(value)):
        return frame.unknown(node, say("only running it tells"))
    start = numbers[0] or 0
    if isinstance(value, list):
        start = max(0, start - 1) if frame.text(node).startswith(("${@", "${*")) else start
    length = numbers[1] if len(numbers) > 1 else None
    return value[start:] if length is None else value[start : start + length if length >= 0 else length]


def _changed(frame: ScriptFrame, node: Any, value: ShellValue, operator: str, rest: Any, words: Words) -> ShellValue:
    if isinstance(value, list):
        return [str(_changed(frame, node, one, operator, rest, words)) for one in value]
    if not is_known(value):
        return value
    if operator in ("^", "^^", ",", ",,"):
        change = str.upper if operator[0] == "^" else str.lower
        return change(value) if len(operator) == 2 else change(value[:1]) + value[1:]
    said = [words(frame, one) for one in rest]
    pattern = said[0] if said else ""
    if not is_known(pattern) or len(value) > MAX_MATCHED:
        return frame.unknown(node, say("only running it tells"))
    if operator in ("/", "//"):
        regex = fnmatch.translate(pattern).removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z")
        every = frame.text(node).partition("//")[1] and "//" in frame.text(node)
        return re.sub(regex, lambda _: said[1] if len(said) > 1 else "", value, count=0 if every else 1)
    return _cut(value, pattern, operator)


def _cut(value: str, pattern: str, operator: str) -> str:
    ends = range(len(value) + 1)
    longest = len(operator) == 2
    if operator.startswith("#"):
        cuts = [at for at in ends if fnmatch.fnmatchcase(value[:at], pattern)]
        return value[(max if longest else min)(cuts) :] if cuts else value
    cuts = [at for at in ends if fnmatch.fnmatchcase(value[at:], pattern)]
    return value[: (min if longest else max)(cuts)] if cuts else value
