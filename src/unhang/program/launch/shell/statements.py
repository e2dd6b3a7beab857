"""The statements of a shell script, in the order in which the shell would come to them. Nothing is run.

Where a condition is known only when it runs, both branches are followed, and what they leave different is not known.
A loop over words is followed word by word; any other loop once, and what it changes is not known.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from unhang.findings import Source
from unhang.program.launch.shell.arithmetic import evaluate_arithmetic
from unhang.program.launch.shell.builtins import TEST_COMMANDS, export_words
from unhang.program.launch.shell.commands import assign, run_command, run_redirected, run_script
from unhang.program.launch.shell.conditions import arithmetic_condition, evaluate_condition
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.session import FollowSession, ScriptFrame
from unhang.program.launch.shell.state import ShellFunction, ShellState, merge_states
from unhang.program.launch.shell.words import expand_text, expand_words

MAX_ROUNDS = 64
_COUNTED = re.compile(r"(\w+)\s*(\+\+|--|[-+*/]?=)\s*(.*)", re.DOTALL)


def read_script(session: FollowSession, state: ShellState, script: str, source: Source) -> None:
    """Go through ``script``, the file of ``source`` or a text in its line; what it starts waits in the session."""
    run_script(session, state, run, script, source)


def run(frame: ScriptFrame, node: Any) -> bool | None:
    """One statement: whether it succeeds; None where that is not known."""
    if frame.state.ended or not frame.session.may_go_on():
        return None
    known = _BY_KIND.get(node.type)
    if known is not None:
        return known(frame, node)
    return _all(frame, [child for child in node.named_children if child.type in _BY_KIND]) if node.is_error else None


def _all(frame: ScriptFrame, nodes: Sequence[Any]) -> bool | None:
    status: bool | None = True
    for node in nodes:
        if node.type != "comment":
            status = run(frame, node)
    return status


def _body(frame: ScriptFrame, node: Any) -> bool | None:
    if frame.text(node).startswith("(("):
        return _arithmetic(frame, node)
    return _all(frame, node.named_children)


def _subshell(frame: ScriptFrame, node: Any) -> bool | None:
    kept = frame.state
    frame.state = kept.copy()
    status = _all(frame, node.named_children)
    frame.state = kept
    return status


def _arithmetic(frame: ScriptFrame, node: Any) -> bool | None:
    """``((i++))``, ``((i += 2))``, ``((i > 2))``."""
    words = frame.text(node)[2:-2].strip()
    found = _COUNTED.fullmatch(words)
    if found is not None and not found[3].startswith("="):
        name, sign, amount = found.groups()
        said = {"++": f"{name}+1", "--": f"{name}-1", "=": amount}.get(sign, f"{name}{sign[:1]}({amount})")
        number = evaluate_arithmetic(said, frame.state)
        source = frame.source(node)
        value = frame.unknown_variable(name, source) if number is None else str(number)
        frame.state.assign(name, value, source)
    return arithmetic_condition(frame, words)


def _list(frame: ScriptFrame, node: Any) -> bool | None:
    left, right = node.named_children[0], node.named_children[-1]
    status = run(frame, left)
    wanted = any(child.type == "&&" for child in node.children)
    if status is None and not _is_asked(frame, left):
        status = True  # a program is taken to succeed
    if status is None:
        _follow_both(frame, node, lambda: run(frame, right), lambda: None)
        return None
    return run(frame, right) if status == wanted else status


def _is_asked(frame: ScriptFrame, node: Any) -> bool:
    """A test, rather than a program that does something."""
    while node.type in ("redirected_statement", "pipeline", "list"):
        node = node.named_children[0]
    return node.type != "command" or frame.text(node).split(maxsplit=1)[0] in TEST_COMMANDS


def _follow_both(
    frame: ScriptFrame, node: Any, one: Callable[[], Any], other: Callable[[], Any], *, is_asked: bool = True
) -> None:
    """Follow two branches, and go on with what they agree on."""
    start, source = frame.state, frame.source(node)
    ends = []
    for way in (one, other):
        frame.state = start.copy()
        frame.state.conditions = (*start.conditions, source) if is_asked else start.conditions
        way()
        frame.state.conditions = start.conditions
        ends.append(frame.state)
    start.replace_with(merge_states(ends[0], ends[1], frame.session.parts, source))
    frame.state = start


def _if(frame: ScriptFrame, node: Any) -> bool | None:
    return _clauses(frame, node, [node, *(child for child in node.named_children if child.type == "elif_clause")])


def _clauses(frame: ScriptFrame, node: Any, clauses: list[Any]) -> bool | None:
    if not clauses:
        return _all(frame, [child for child in node.named_children if child.type == "else_clause"])
    parts = [child for child in clauses[0].children if child.type not in ("elif_clause", "else_clause")]
    then = next((at for at, child in enumerate(parts) if child.type == "then"), len(parts))
    conditions, body = ([child for child in some if child.is_named] for some in (parts[:then], parts[then:]))
    status = _all(frame, conditions)
    if status is None:
        _follow_both(frame, clauses[0], lambda: _all(frame, body), lambda: _clauses(frame, node, clauses[1:]))
        return None
    return _all(frame, body) if status else _clauses(frame, node, clauses[1:])


def _case(frame: ScriptFrame, node: Any) -> bool | None:
    subject = expand_text(frame, node.child_by_field_name("value"))
    return _items(frame, subject, [child for child in node.named_children if child.type == "case_item"])


def _items(frame: ScriptFrame, subject: str, items: list[Any]) -> bool | None:
    for at, item in enumerate(items):
        values = item.children_by_field_name("value")
        patterns = [expand_text(frame, one).replace("\\", "") for one in values]
        body = [one for one in item.named_children if one not in values]
        if "*" in patterns:
            return _all(frame, body)
        if not is_known(subject):
            _follow_both(frame, item, partial(_all, frame, body), partial(_items, frame, subject, items[at + 1 :]))
            return None
        if any(fnmatch.fnmatchcase(subject, pattern) for pattern in patterns):
            return _all(frame, body)
    return True


def _for(frame: ScriptFrame, node: Any) -> bool | None:
    name, values = frame.text(node.child_by_field_name("variable")), node.children_by_field_name("value")
    named = any(child.type == "in" for child in node.children)
    words = [word for value in values for word in expand_words(frame, value)] if named else list(frame.state.arguments)
    for word in words[:MAX_ROUNDS]:
        if frame.state.ended:
            break
        frame.state.assign(name, word, frame.source(node))
        _round(frame, node)
    _leave_loop(frame)
    return True


def _while(frame: ScriptFrame, node: Any) -> bool | None:
    conditions = [one for one in node.children_by_field_name("condition") if one.is_named]
    ends_at = node.children[0].type == "until"
    for _ in range(MAX_ROUNDS):
        status = _all(frame, conditions)
        if status is ends_at:
            break
        if status is None:
            _perhaps(frame, node, is_asked=True)
            break
        before = frame.state.copy()
        _round(frame, node)
        if frame.state.ended or (before.variables, before.arguments) == (frame.state.variables, frame.state.arguments):
            break
    _leave_loop(frame)
    return True


def _counted(frame: ScriptFrame, node: Any) -> bool | None:
    """``for ((i = 0; i < n; i++))``."""
    first = node.child_by_field_name("initializer")
    found = None if first is None else _COUNTED.fullmatch(frame.text(first).strip())
    if found is not None:
        frame.state.assign(found[1], frame.unknown_variable(found[1], frame.source(node)), frame.source(node))
    _perhaps(frame, node, is_asked=False)
    return True


def _perhaps(frame: ScriptFrame, node: Any, *, is_asked: bool) -> None:
    """A loop of which only running tells how often it is gone through."""
    _follow_both(frame, node, lambda: _round(frame, node), lambda: None, is_asked=is_asked)
    _leave_loop(frame)


def _leave_loop(frame: ScriptFrame) -> None:
    frame.state.ended = "" if frame.state.ended == "break" else frame.state.ended


def _round(frame: ScriptFrame, node: Any) -> None:
    run(frame, node.child_by_field_name("body") or node.named_children[-1])
    frame.state.ended = "" if frame.state.ended == "continue" else frame.state.ended


def _pipeline(frame: ScriptFrame, node: Any) -> bool | None:
    stages = [child for child in node.named_children if child.type != "comment"]
    kept_in, kept_out, status = frame.stdin, frame.output, None
    for stage in stages[:-1]:
        frame.output = []
        run(frame, stage)
        frame.stdin = frame.printed()
    frame.output = kept_out
    status = run(frame, stages[-1])
    frame.stdin = kept_in
    return status


def _negated(frame: ScriptFrame, node: Any) -> bool | None:
    status = run(frame, node.named_children[-1])
    return None if status is None else not status


def _define(frame: ScriptFrame, node: Any) -> bool | None:
    name = frame.text(node.child_by_field_name("name"))
    frame.state.functions[name] = ShellFunction(node.child_by_field_name("body"), frame.code, frame.file)
    return True


def _assignment(frame: ScriptFrame, node: Any) -> bool | None:
    assign(frame, node)
    return True


def _declaration(frame: ScriptFrame, node: Any) -> bool | None:
    """``export``, ``declare -x``, ``local``."""
    export = node.children[0].type == "export" or any(frame.text(child) == "-x" for child in node.named_children)
    for child in node.named_children:
        if child.type == "variable_assignment":
            assign(frame, child, export=export)
        elif export and child.type != "comment":
            frame.at = frame.source(child)
            export_words(frame, expand_words(frame, child))
    return True


def _unset(frame: ScriptFrame, node: Any) -> bool | None:
    for child in node.named_children:
        frame.state.unset(frame.text(child))
    return True


_BY_KIND: dict[str, Callable[[ScriptFrame, Any], bool | None]] = {
    **dict.fromkeys(
        ("program", "do_group", "else_clause", "variable_assignments"), lambda f, n: _all(f, n.named_children)
    ),
    "compound_statement": _body,
    "subshell": _subshell,
    "list": _list,
    "if_statement": _if,
    "case_statement": _case,
    "for_statement": _for,
    "c_style_for_statement": _counted,
    "while_statement": _while,
    "pipeline": _pipeline,
    "negated_command": _negated,
    "test_command": evaluate_condition,
    "redirected_statement": run_redirected,
    "command": run_command,
    "function_definition": _define,
    "variable_assignment": _assignment,
    "declaration_command": _declaration,
    "unset_command": _unset,
}
