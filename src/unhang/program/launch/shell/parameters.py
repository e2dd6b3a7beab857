"""``$X``, ``${X:-default}``, ``${X##*/}``, ``${ARGS[@]}`` and what else stands behind a dollar."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from typing import Any

from unhang.findings import Source
from unhang.program.launch.shell.arithmetic import evaluate_arithmetic
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.session import ScriptFrame
from unhang.program.launch.shell.state import ShellValue
from unhang.sentences import say

Text = Callable[[ScriptFrame, Any], str]
_OF_SCHEDULER = (("SLURM_", ("srun", "sbatch", "salloc")), ("OMPI_", ("mpirun",)), ("PMI_", ("mpirun",)))
_CHANGES_ITSELF = frozenset(("$", "!", "RANDOM", "SECONDS", "LINENO", "OLDPWD", "-", "_"))
_DEFAULT = {"-", "=", "+", "?"}
_CHANGING = {"#", "##", "%", "%%", "/", "//", "^", "^^", ",", ",,", ":"}
MAX_MATCHED = 4096
"""Characters that are held against a pattern at each place."""


def expand_parameter(frame: ScriptFrame, node: Any, text: Text) -> tuple[ShellValue, bool]:
    """The value, and for a list whether its parts stay apart (``@``). Marks stand for what is not known."""
    inner = [child for child in node.named_children if child.type != "comment"]
    if not inner:
        return frame.unknown(node), False
    name, index = _subject(frame, inner[0])
    signs = [child.type for child in node.children if not child.is_named and child.type not in ("${", "}", "$")]
    value = _held(frame, node, name, index)
    if frame.text(node).startswith("${#") and frame.text(node) != "${#}":
        known = value is None or isinstance(value, list) or is_known(value)
        return str(len(value or "")) if known else frame.unknown(node), False
    if signs[:1] == ["!"]:
        value, signs = frame.state.value(value) if isinstance(value, str) else None, signs[1:]
    operator = next((sign for sign in signs if sign in _CHANGING or sign.lstrip(":") in _DEFAULT), "")
    rest = inner[1:]
    if operator.lstrip(":") in _DEFAULT:
        return _default(frame, node, name, value, operator, lambda: "".join(text(frame, one) for one in rest))
    if value is None:
        return _absent(frame, node, name), False
    words = [text(frame, one) for one in rest] if operator else []
    if operator == ":":
        return _slice(frame, node, value, words), index == "@"
    if operator and isinstance(value, str):
        value = _changed(frame, node, value, operator, words)
    elif operator:
        value = [_changed(frame, node, one, operator, words) for one in value]
    return value, index == "@"


def _subject(frame: ScriptFrame, node: Any) -> tuple[str, str]:
    if node.type == "subscript":
        name, *index = (frame.text(child) for child in node.named_children)
        return name, index[0] if index else "0"
    name = frame.text(node)
    return name, name if name in "@*" else ""


def _held(frame: ScriptFrame, node: Any, name: str, index: str) -> ShellValue | None:
    state = frame.state
    own = _SPECIAL.get(name)
    if own is not None:
        return own(frame)
    if name.isdigit():
        return dict(enumerate([state.script, *state.arguments])).get(int(name))
    if name in _CHANGES_ITSELF:
        return frame.unknown_variable(name, Source(frame.file))
    value = state.value(name)
    if isinstance(value, list) and index not in ("@", "*"):
        at = evaluate_arithmetic(index or "0", state)
        if at is None:
            return frame.unknown(node)
        return value[at] if -len(value) <= at < len(value) else None
    return [value] if isinstance(value, str) and index in ("@", "*") else value


def _count(frame: ScriptFrame) -> str:
    known = all(map(is_known, frame.state.arguments))
    return str(len(frame.state.arguments)) if known else frame.unknown_variable("#", Source(frame.file))


def printed_folder(frame: ScriptFrame) -> str:
    """``$PWD``."""
    return frame.session.absolute(frame.state.folder) if is_known(frame.state.folder) else frame.state.folder


_SPECIAL: dict[str, Callable[[ScriptFrame], ShellValue]] = {
    "@": lambda frame: list(frame.state.arguments),
    "*": lambda frame: list(frame.state.arguments),
    "#": _count,
    "?": lambda frame: "0",  # noqa: ARG005 - programs are taken to succeed
    "BASH_SOURCE": lambda frame: frame.file,
    "PWD": printed_folder,
}


def _absent(frame: ScriptFrame, node: Any, name: str) -> str | list[str]:
    if name in ("@", "*"):
        return []
    outer = {one.name for one in frame.state.outer}
    for prefix, launchers in _OF_SCHEDULER:
        setter = next((one for one in launchers if one in outer), "")
        if name.startswith(prefix) and setter:
            return frame.unknown(node, say("{launcher} sets it when it starts the job", launcher=setter))
    if name == frame.assigning:  # PATH=$PATH:more
        return ""
    because = say("the script gets no such argument") if name.isdigit() else say("{name} is not set here", name=name)
    return frame.unknown(node, because, unset=True)


def _default(
    frame: ScriptFrame, node: Any, name: str, value: ShellValue | None, operator: str, text: Callable[[], str]
) -> tuple[ShellValue, bool]:
    """``-``, ``=``, ``+`` and ``?``, with a colon where an empty value counts as none."""
    given = value is not None and not (operator.startswith(":") and not value)
    kind = operator.lstrip(":")
    if kind == "+":
        return text() if given else "", False
    if given:
        return value or "", isinstance(value, list)
    if kind == "?":
        return _absent(frame, node, name), False
    said = text()
    if kind == "=":
        frame.state.assign(name, said, frame.source(node))
    return said, False


def _slice(frame: ScriptFrame, node: Any, value: ShellValue, words: Sequence[str]) -> ShellValue:
    numbers = [evaluate_arithmetic(word, frame.state) for word in words]
    if not numbers or None in numbers or (isinstance(value, str) and not is_known(value)):
        return frame.unknown(node)
    start, length = numbers[0] or 0, numbers[1] if len(numbers) > 1 else None
    if isinstance(value, list) and frame.text(node).startswith(("${@", "${*")):
        start = max(0, start - 1)
    return value[start:] if length is None else value[start : start + length if length >= 0 else length]


def _changed(frame: ScriptFrame, node: Any, value: str, operator: str, words: Sequence[str]) -> str:
    if not is_known(value):
        return value
    if operator[0] in "^,":
        change = str.upper if operator[0] == "^" else str.lower
        return change(value) if len(operator) == 2 else change(value[:1]) + value[1:]
    pattern = words[0] if words else ""
    if not is_known(pattern) or len(value) > MAX_MATCHED:
        return frame.unknown(node)
    if operator in ("/", "//"):
        regex = fnmatch.translate(pattern).removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z")
        return re.sub(regex, lambda _: "".join(words[1:2]), value, count=1 if operator == "/" else 0)
    longest, places = len(operator) == 2, range(len(value) + 1)
    if operator.startswith("#"):
        cuts = [at for at in places if fnmatch.fnmatchcase(value[:at], pattern)]
        return value[(max if longest else min)(cuts) :] if cuts else value
    cuts = [at for at in places if fnmatch.fnmatchcase(value[at:], pattern)]
    return value[: (min if longest else max)(cuts)] if cuts else value
