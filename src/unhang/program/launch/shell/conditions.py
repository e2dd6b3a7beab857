"""``[ … ]``, ``[[ … ]]`` and ``test``: true, false, or not known before it runs."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any

from unhang.knowledge import numbers
from unhang.program.launch.follow_session import Frame
from unhang.program.launch.shell.arithmetic import computed
from unhang.program.launch.shell.partly_known_text import emptied, is_known
from unhang.program.launch.shell.word_expansion import text

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
}


def condition(frame: Frame, node: Any) -> bool | None:
    """Of an expression inside ``[[ … ]]`` or ``[ … ]``."""
    kind = node.type
    children = node.named_children
    if kind in ("test_command", "parenthesized_expression"):
        if frame.text(node).startswith("(("):
            return arithmetic(frame, frame.text(node)[2:-2])
        inner = [child for child in children if child.type != "comment"]
        return condition(frame, inner[0]) if len(inner) == 1 else None
    if kind == "negated_command" or (kind == "unary_expression" and frame.text(node).startswith("!")):
        inside = condition(frame, children[-1])
        return None if inside is None else not inside
    if kind == "unary_expression":
        return asked(frame, [frame.text(children[0]), _whole(frame, children[-1])])
    if kind == "binary_expression":
        return _binary(frame, node)
    return asked(frame, [_whole(frame, node)])


def _whole(frame: Frame, node: Any) -> str:
    return text(frame, node)


def _binary(frame: Frame, node: Any) -> bool | None:
    left, right = node.children[0], node.children[-1]
    operator = frame.text(node.children[1]) if len(node.children) > 2 else ""
    if operator in ("&&", "-a"):
        return both(condition(frame, left), condition(frame, right))
    if operator in ("||", "-o"):
        return either(condition(frame, left), condition(frame, right))
    pattern = "".join(_whole(frame, part) for part in node.children[2:])  # *"azure"* is several nodes
    return asked(frame, [_whole(frame, left), operator, pattern])


def both(one: bool | None, other: bool | None) -> bool | None:
    """And, of three values."""
    return False if one is False or other is False else None if one is None or other is None else True


def either(one: bool | None, other: bool | None) -> bool | None:
    """Or, of three values."""
    return True if one is True or other is True else None if one is None or other is None else False


def arithmetic(frame: Frame, words: str) -> bool | None:
    """``(( … ))``: whether it is not zero."""
    number = computed(words, frame.state)
    return None if number is None else number != 0


def asked(frame: Frame, words: Sequence[str]) -> bool | None:
    """``words`` of ``test``, without brackets. A variable that is not set here is empty."""
    words = [_unset_is_empty(frame, word) for word in words]
    if words[:1] == ["!"]:
        inside = asked(frame, words[1:])
        return None if inside is None else not inside
    for operator, join in (("-o", either), ("-a", both)):
        if operator in words[1:-1]:
            at = words.index(operator, 1)
            return join(asked(frame, words[:at]), asked(frame, words[at + 1 :]))
    if len(words) == 2:
        return _unary(frame, words[0], words[1])
    if len(words) == 3:
        return _compared(words[0], words[1], words[2])
    if len(words) <= 1:
        return bool(words and words[0]) if all(map(is_known, words)) else None
    return None


def _unset_is_empty(frame: Frame, word: str) -> str:
    return emptied(word) if all(part.unset for part in frame.session.parts.inside(word)) else word


def _unary(frame: Frame, operator: str, word: str) -> bool | None:
    if operator in ("-n", "-z"):
        if not is_known(word):
            return (operator == "-n") if emptied(word) else None
        return bool(word) == (operator == "-n")
    if operator == "-v":
        return frame.state.value(word) is not None
    if not is_known(word):
        return None
    there = _is_there(frame, operator, frame.state.place(word))
    return None if there is False and frame.session.may_be_made(frame.state.place(word)) else there


def _is_there(frame: Frame, operator: str, path: str) -> bool | None:
    if operator in ("-f", "-s", "-r", "-x"):
        return frame.session.read(path) is not None
    if operator == "-d":
        return frame.session.is_folder(path)
    if operator in ("-e", "-a"):
        return either(frame.session.read(path) is not None, frame.session.is_folder(path))
    return None


def _compared(left: str, operator: str, right: str) -> bool | None:
    if not (is_known(left) and is_known(right)):
        return None
    if operator in ("=", "=="):
        return fnmatch.fnmatchcase(left, right)
    if operator == "!=":
        return not fnmatch.fnmatchcase(left, right)
    if operator in _NUMBERS:
        a, b = numbers.whole(left), numbers.whole(right)
        return None if a is None or b is None else _NUMBERS[operator](a, b)
    return None
