"""Loops of a shell script."""

from __future__ import annotations

import re
from typing import Any

from unhang.findings import Source
from unhang.program.launch.follow_session import ScriptFrame
from unhang.program.launch.shell.arithmetic import evaluate_arithmetic
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.word_expansion import expand_words
from unhang.sentences import say

MAX_ROUNDS = 64
_COUNTED = re.compile(r"(\w+)\s*(\+\+|--|[-+*/]?=)\s*(.*)", re.DOTALL)


def run_for_loop(frame: ScriptFrame, node: Any) -> bool | None:
    """``for x in …``: every word in turn; once where a word is not known."""
    name = frame.text(node.child_by_field_name("variable"))
    values = node.children_by_field_name("value")
    named = any(child.type == "in" for child in node.children)
    words = [word for value in values for word in expand_words(frame, value)] if named else list(frame.state.arguments)
    body = node.child_by_field_name("body")
    for word in words[:MAX_ROUNDS]:
        frame.state.assign(name, word, frame.source(node))
        frame.run(frame, body)
        if _over(frame):
            break
    return True


def run_counted_loop(frame: ScriptFrame, node: Any) -> bool | None:
    """``for ((i = 0; i < n; i++))``; once, with the counter not known, where its end is not."""
    first, test, step = (_counter_part(frame, node, part) for part in ("initializer", "condition", "update"))
    body = node.child_by_field_name("body") or node.named_children[-1]
    apply_counter(frame, first, frame.source(node))
    for _ in range(MAX_ROUNDS):
        more = evaluate_arithmetic(test, frame.state)
        if more == 0:
            break
        frame.run(frame, body)
        if _over(frame) or more is None:
            break
        apply_counter(frame, step, frame.source(node))
    return True


def run_while_loop(frame: ScriptFrame, node: Any) -> bool | None:
    """``while`` and ``until``, as long as the condition is known."""
    wanted = node.children[0].type != "until"
    body = node.child_by_field_name("body")
    conditions = [one for one in node.children_by_field_name("condition") if one.is_named]
    for _ in range(MAX_ROUNDS):
        status: bool | None = True
        for one in conditions:
            status = frame.run(frame, one)
        if status is (not wanted):
            break
        if status is None:
            _perhaps(frame, node, body)
            break
        before = (dict(frame.state.variables), list(frame.state.arguments))
        frame.run(frame, body)
        if _over(frame) or before == (frame.state.variables, frame.state.arguments):
            break
    return True


def apply_counter(frame: ScriptFrame, words: str, source: Source) -> None:
    """``i = 0``, ``i++``, ``i += 2`` inside ``((…))``."""
    found = _COUNTED.fullmatch(words.strip())
    if found is None or (found[2] == "=" and found[3].startswith("=")):
        return
    name, operator, amount = found.groups()
    said = {"++": f"{name}+1", "--": f"{name}-1", "=": amount}.get(operator, f"{name}{operator[:1]}({amount})")
    number = evaluate_arithmetic(said, frame.state)
    unknown = frame.session.parts.mark(f"${name}", say("only running it tells"), source)
    frame.state.assign(name, unknown if number is None else str(number), source)


def _perhaps(frame: ScriptFrame, node: Any, body: Any) -> None:
    from unhang.program.launch.shell.statements import follow_branches

    def once() -> None:
        frame.run(frame, body)
        _over(frame)

    follow_branches(frame, node, once, lambda: None)


def _over(frame: ScriptFrame) -> bool:
    """Whether the loop is left; ``break`` and ``continue`` end there."""
    ended = frame.state.ended
    if ended in ("break", "continue"):
        frame.state.ended = ""
    return ended not in ("", "continue")


def _counter_part(frame: ScriptFrame, node: Any, part: str) -> str:
    child = node.child_by_field_name(part)
    words = "" if child is None else frame.text(child)
    return words if is_known(words) else ""
