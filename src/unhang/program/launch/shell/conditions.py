"""``[ … ]``, ``[[ … ]]`` and ``test``: true, false, or not known before it runs."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any

from unhang.knowledge import numbers
from unhang.program.launch.follow_session import ScriptFrame
from unhang.program.launch.shell.arithmetic import evaluate_arithmetic
from unhang.program.launch.shell.partly_known_text import is_known, with_marks_empty
from unhang.program.launch.shell.word_expansion import expand_text

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
}


def evaluate_condition(frame: ScriptFrame, node: Any) -> bool | None:
    """Of an expression inside ``[[ … ]]`` or ``[ … ]``."""
    kind = node.type
    children = node.named_children
    if kind in ("test_command", "parenthesized_expression"):
        if frame.text(node).startswith("(("):
            return arithmetic_condition(frame, frame.text(node)[2:-2])
        inner = [child for child in children if child.type != "comment"]
        return evaluate_condition(frame, inner[0]) if len(inner) == 1 else None
    if kind == "negated_command" or (kind == "unary_expression" and frame.text(node).startswith("!")):
        inside = evaluate_condition(frame, children[-1])
        return None if inside is None else not inside
    if kind == "unary_expression":
        return evaluate_test_words(frame, [frame.text(children[0]), _whole(frame, children[-1])])
    if kind == "binary_expression":
        return _binary(frame, node)
    return evaluate_test_words(frame, [_whole(frame, node)])


def _whole(frame: ScriptFrame, node: Any) -> str:
    return expand_text(frame, node)


def _binary(frame: ScriptFrame, node: Any) -> bool | None:
    left, right = node.children[0], node.children[-1]
    operator = frame.text(node.children[1]) if len(node.children) > 2 else ""
    if operator in ("&&", "-a"):
        return logical_and(evaluate_condition(frame, left), evaluate_condition(frame, right))
    if operator in ("||", "-o"):
        return logical_or(evaluate_condition(frame, left), evaluate_condition(frame, right))
    pattern = "".join(_whole(frame, part) for part in node.children[2:])  # *"azure"* is several nodes
    return evaluate_test_words(frame, [_whole(frame, left), operator, pattern])


def logical_and(one: bool | None, other: bool | None) -> bool | None:
    """And, of three values."""
    return False if one is False or other is False else None if one is None or other is None else True


def logical_or(one: bool | None, other: bool | None) -> bool | None:
    """Or, of three values."""
    return True if one is True or other is True else None if one is None or other is None else False


def arithmetic_condition(frame: ScriptFrame, words: str) -> bool | None:
    """``(( … ))``: whether it is not zero."""
    number = evaluate_arithmetic(words, frame.state)
    return None if number is None else number != 0


def evaluate_test_words(frame: ScriptFrame, words: Sequence[str]) -> bool | None:
    """``words`` of ``test``, without brackets. A variable that is not set here is empty."""
    words = [_unset_is_empty(frame, word) for word in words]
    if words[:1] == ["!"]:
        inside = evaluate_test_words(frame, words[1:])
        return None if inside is None else not inside
    for operator, join in (("-o", logical_or), ("-a", logical_and)):
        if operator in words[1:-1]:
            at = words.index(operator, 1)
            return join(evaluate_test_words(frame, words[:at]), evaluate_test_words(frame, words[at + 1 :]))
    if len(words) == 2:
        return _unary(frame, words[0], words[1])
    if len(words) == 3:
        return _compared(words[0], words[1], words[2])
    if len(words) <= 1:
        return bool(words and words[0]) if all(map(is_known, words)) else None
    return None


def _unset_is_empty(frame: ScriptFrame, word: str) -> str:
    return with_marks_empty(word) if all(part.unset for part in frame.session.parts.inside(word)) else word


def _unary(frame: ScriptFrame, operator: str, word: str) -> bool | None:
    if operator in ("-n", "-z"):
        if not is_known(word):
            return (operator == "-n") if with_marks_empty(word) else None
        return bool(word) == (operator == "-n")
    if operator == "-v":
        return frame.state.value(word) is not None
    if not is_known(word):
        return None
    there = _is_there(frame, operator, frame.state.place(word))
    return None if there is False and frame.session.may_be_made(frame.state.place(word)) else there


def _is_there(frame: ScriptFrame, operator: str, path: str) -> bool | None:
    if operator in ("-f", "-s", "-r", "-x"):
        return frame.session.read(path) is not None
    if operator == "-d":
        return frame.session.is_folder(path)
    if operator in ("-e", "-a"):
        return logical_or(frame.session.read(path) is not None, frame.session.is_folder(path))
    return None


def _compared(left: str, operator: str, right: str) -> bool | None:
    if not (is_known(left) and is_known(right)):
        return None
    if operator in ("=", "=="):
        return fnmatch.fnmatchcase(left, right)
    if operator == "!=":
        return not fnmatch.fnmatchcase(left, right)
    if operator in _NUMBERS:
        a, b = numbers.integer(left), numbers.integer(right)
        return None if a is None or b is None else _NUMBERS[operator](a, b)
    return None
