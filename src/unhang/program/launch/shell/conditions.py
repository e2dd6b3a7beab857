"""``[ … ]``, ``[[ … ]]`` and ``test``: true, false, or not known before it runs."""

from __future__ import annotations

import fnmatch
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from unhang.knowledge import numbers
from unhang.program.launch.shell.arithmetic import evaluate_arithmetic
from unhang.program.launch.shell.partly_known_text import is_known, with_marks_empty
from unhang.program.launch.shell.session import ScriptFrame
from unhang.program.launch.shell.words import expand_text

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}
_BRACKETED = ("binary_expression", "unary_expression", "parenthesized_expression")
_JOINED = (({"||", "-o"}, True), ({"&&", "-a"}, False))
"""Weakest first: what joins two conditions, and the answer of one that decides."""


def evaluate_condition(frame: ScriptFrame, node: Any) -> bool | None:
    """Of ``[[ … ]]``, ``[ … ]`` or ``(( … ))``."""
    if frame.text(node).startswith("(("):
        return arithmetic_condition(frame, frame.text(node)[2:-2])
    return evaluate_test(frame, _words(frame, node)[1:-1])


def arithmetic_condition(frame: ScriptFrame, words: str) -> bool | None:
    """``(( … ))``: whether it is not zero."""
    number = evaluate_arithmetic(words, frame.state)
    return None if number is None else number != 0


def _words(frame: ScriptFrame, node: Any) -> list[str]:
    """Operators and operands in their order, as ``test`` would be given them."""
    words: list[str] = []
    end = -1
    for part in _parts(node):
        is_operand = part.is_named and part.type != "test_operator"
        word = expand_text(frame, part) if is_operand else frame.text(part)
        if is_operand and part.start_byte == end:  # *"azure"* is several parts
            words[-1] += word
        else:
            words.append(word)
        end = part.end_byte if is_operand else -1
    return words


def _parts(node: Any) -> Iterator[Any]:
    for child in node.children:
        if child.type in _BRACKETED:
            yield from _parts(child)
        elif child.type != "comment":
            yield child


def evaluate_test(frame: ScriptFrame, words: Sequence[str]) -> bool | None:
    """``words`` of ``test``, without brackets. A variable that is not set here is empty."""
    for names, decides in _JOINED:
        at = _joined_at(words, names)
        if at:
            both = evaluate_test(frame, words[:at]), evaluate_test(frame, words[at + 1 :])
            return decides if decides in both else None if None in both else not decides
    if words[:1] == ["!"]:
        inside = evaluate_test(frame, words[1:])
        return None if inside is None else not inside
    if words[:1] == ["("] and words[-1:] == [")"]:
        return evaluate_test(frame, words[1:-1])
    words = [
        with_marks_empty(word) if all(part.unset for part in frame.session.parts.inside(word)) else word
        for word in words
    ]
    if len(words) == 3:
        return _compared(words[0], words[1], words[2])
    if len(words) == 2:
        return _unary(frame, words[0], words[1])
    return any(words) if len(words) < 2 and all(map(is_known, words)) else None


def _joined_at(words: Sequence[str], names: set[str]) -> int:
    """Where one of ``names`` stands between two conditions, outside of brackets; 0: nowhere."""
    depth = 0
    for at, word in enumerate(words[:-1]):
        depth += (word == "(") - (word == ")")
        if at and not depth and word in names:
            return at
    return 0


def _unary(frame: ScriptFrame, test: str, word: str) -> bool | None:
    if test in ("-n", "-z"):
        if not is_known(word):
            return (test == "-n") if with_marks_empty(word) else None
        return bool(word) == (test == "-n")
    if test == "-v":
        return frame.state.value(word) is not None
    if not is_known(word):
        return None
    path = frame.state.place(word)
    looks = [
        *([frame.session.read(path) is not None] if test in ("-f", "-s", "-r", "-x", "-e", "-a") else []),
        *([frame.session.is_folder(path)] if test in ("-d", "-e", "-a") else []),
    ]
    there = True if True in looks else None if None in looks or not looks else False
    return None if there is False and frame.session.may_be_made(path) else there


def _compared(left: str, test: str, right: str) -> bool | None:
    if not (is_known(left) and is_known(right)):
        return None
    if test in ("=", "==", "!="):
        return fnmatch.fnmatchcase(left, right) == (test != "!=")
    if test in _NUMBERS:
        a, b = numbers.integer(left), numbers.integer(right)
        return None if a is None or b is None else _NUMBERS[test](a, b)
    return None
