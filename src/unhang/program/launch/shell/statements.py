"""A shell script, statement by statement, as the shell would go through it. Nothing is run.

Where a condition is known only when it runs, both branches are followed, and what they leave different is not known.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from unhang.findings import Source
from unhang.program.launch.follow_session import MAX_DEPTH, FollowSession, ScriptFrame
from unhang.program.launch.shell import loops, simple_commands
from unhang.program.launch.shell.builtins import TEST_COMMANDS, builtin
from unhang.program.launch.shell.conditions import arithmetic_condition, evaluate_condition
from unhang.program.launch.shell.parser import first_error, parse_script
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.state import ShellFunction, ShellState, merge_states
from unhang.program.launch.shell.word_expansion import UNKNOWN_MARK, expand_text, expand_words
from unhang.sentences import say

_BODIES = ("program", "compound_statement", "do_group", "else_clause", "subshell")


def run_file(session: FollowSession, state: ShellState, path: str, script: str, line: int | None = None) -> bool | None:
    """Go through ``script``, which is the file at ``path``, or stands in its ``line``."""
    tree, code, trouble = parse_script(script.encode("utf-8", "replace"))
    if tree is None:
        assert trouble is not None
        session.note(trouble, Source(path))
        return None
    if session.depth >= MAX_DEPTH:
        session.note(say("scripts that start each other, more than {count} deep", count=MAX_DEPTH), Source(path))
        return None
    session.depth += 1
    frame = ScriptFrame(session, state, path, code, run, line=line)
    for torn in first_error(tree):
        session.note(say("this could not be read as shell, so what follows may be wrong"), frame.source(torn))
    try:
        return run(frame, tree)
    except RecursionError:
        session.note(say("it is nested too deeply to be followed"), Source(path))
        return None
    finally:
        session.depth -= 1


def run_text(session: FollowSession, state: ShellState, script: str, source: Source | None) -> bool | None:
    """``eval``, ``sh -c``, ``ssh``: a script inside a script, or inside what the user types."""
    return run_file(session, state, *(("command", script) if source is None else (source.path, script, source.line)))


def run(frame: ScriptFrame, node: Any) -> bool | None:
    """One statement: whether it succeeds; None where that is not known."""
    if frame.state.ended or not frame.session.may_go_on():
        return None
    known = _BY_KIND.get(node.type)
    if known is not None:
        return known(frame, node)
    if node.type == "ERROR":
        return _all(frame, [child for child in node.named_children if child.type in _BY_KIND])
    return None


def _all(frame: ScriptFrame, nodes: Sequence[Any]) -> bool | None:
    status: bool | None = True
    for node in nodes:
        if node.type != "comment":
            status = run(frame, node)
    return status


def _body(frame: ScriptFrame, node: Any) -> bool | None:
    if node.type == "compound_statement" and frame.text(node).startswith("(("):
        return _arithmetic(frame, node)
    if node.type != "subshell":
        return _all(frame, node.named_children)
    kept = frame.state
    frame.state = kept.copy()
    status = _all(frame, node.named_children)
    frame.state = kept
    return status


def _arithmetic(frame: ScriptFrame, node: Any) -> bool | None:
    words = frame.text(node)[2:-2].strip()
    loops.apply_counter(frame, words, frame.source(node))
    return arithmetic_condition(frame, words)


def _list(frame: ScriptFrame, node: Any) -> bool | None:
    left, right = node.named_children[0], node.named_children[-1]
    status = run(frame, left)
    wanted = any(child.type == "&&" for child in node.children)
    if status is None and not _is_asked(frame, left):
        status = True  # a program is taken to succeed
    if status is None:
        follow_branches(frame, node, lambda: run(frame, right), lambda: None)
        return None
    return run(frame, right) if status == wanted else status


def _is_asked(frame: ScriptFrame, node: Any) -> bool:
    """A test, rather than a program that does something."""
    while node.type in ("redirected_statement", "pipeline", "list"):
        node = node.named_children[0]
    return node.type != "command" or frame.text(node).split(maxsplit=1)[0] in TEST_COMMANDS


def follow_branches(frame: ScriptFrame, node: Any, one: Callable[[], Any], other: Callable[[], Any]) -> None:
    """Follow both, and go on with what they agree on."""
    start, source = frame.state, frame.source(node)
    ends = []
    for way in (one, other):
        frame.state = start.copy()
        frame.state.conditions = (*start.conditions, source)
        way()
        frame.state.conditions = start.conditions
        ends.append(frame.state)
    start.replace_with(merge_states(ends[0], ends[1], frame.session.parts, source))
    frame.state = start


def _if(frame: ScriptFrame, node: Any) -> bool | None:
    return _clauses(frame, node, [node, *(child for child in node.named_children if child.type == "elif_clause")])


def _clauses(frame: ScriptFrame, node: Any, clauses: list[Any]) -> bool | None:
    if not clauses:
        last = [child for child in node.named_children if child.type == "else_clause"]
        return _all(frame, last)
    conditions, body = _parts(clauses[0])
    status = _all(frame, conditions)
    if status is None:
        follow_branches(frame, clauses[0], lambda: _all(frame, body), lambda: _clauses(frame, node, clauses[1:]))
        return None
    return _all(frame, body) if status else _clauses(frame, node, clauses[1:])


def _parts(clause: Any) -> tuple[list[Any], list[Any]]:
    conditions: list[Any] = []
    body: list[Any] = []
    into = conditions
    for child in clause.children:
        if child.type == "then":
            into = body
        elif child.is_named and child.type not in ("elif_clause", "else_clause", "comment"):
            into.append(child)
    return conditions, body


def _case(frame: ScriptFrame, node: Any) -> bool | None:
    subject = expand_text(frame, node.child_by_field_name("value"))
    items = [child for child in node.named_children if child.type == "case_item"]
    return _items(frame, subject, items)


def _items(frame: ScriptFrame, subject: str, items: list[Any]) -> bool | None:
    for at, item in enumerate(items):
        patterns = [expand_text(frame, one) for one in item.children_by_field_name("value")]
        body = [one for one in item.named_children if one not in item.children_by_field_name("value")]
        if "*" in patterns:
            return _all(frame, body)
        if not is_known(subject):
            follow_branches(frame, item, partial(_all, frame, body), partial(_items, frame, subject, items[at + 1 :]))
            return None
        if any(fnmatch.fnmatchcase(subject, pattern.replace("\\", "")) for pattern in patterns):
            return _all(frame, body)
    return True


def _pipeline(frame: ScriptFrame, node: Any) -> bool | None:
    stages = [child for child in node.named_children if child.type != "comment"]
    kept_in, kept_out, status = frame.stdin, frame.output, None
    for stage in stages:
        last = stage is stages[-1]
        frame.output = kept_out if last else []
        status = run(frame, stage)
        if not last:
            told = "".join(frame.output or ())
            frame.stdin = None if UNKNOWN_MARK in told else told
    frame.stdin, frame.output = kept_in, kept_out
    return status


def _negated(frame: ScriptFrame, node: Any) -> bool | None:
    status = run(frame, node.named_children[-1])
    return None if status is None else not status


def _define(frame: ScriptFrame, node: Any) -> bool | None:
    name = frame.text(node.child_by_field_name("name"))
    frame.state.functions[name] = ShellFunction(node.child_by_field_name("body"), frame.code, frame.file)
    return True


def _assignment(frame: ScriptFrame, node: Any) -> bool | None:
    simple_commands.assign(frame, node)
    return True


def _declaration(frame: ScriptFrame, node: Any) -> bool | None:
    keyword = node.children[0].type
    export = keyword == "export" or any(frame.text(child) == "-x" for child in node.named_children)
    for child in node.named_children:
        if child.type == "variable_assignment":
            simple_commands.assign(frame, child, export=export)
        elif child.type == "variable_name" and export:
            frame.state.export(frame.text(child), frame.source(child))
        elif export and child.type not in ("word", "comment"):
            own = builtin(["export"])
            assert own is not None
            own(frame, expand_words(frame, child), frame.source(child))
    return True


def _unset(frame: ScriptFrame, node: Any) -> bool | None:
    for child in node.named_children:
        frame.state.unset(frame.text(child))
    return True


_BY_KIND: dict[str, Callable[[ScriptFrame, Any], bool | None]] = {
    **dict.fromkeys(_BODIES, _body),
    "list": _list,
    "if_statement": _if,
    "case_statement": _case,
    "for_statement": loops.run_for_loop,
    "c_style_for_statement": loops.run_counted_loop,
    "while_statement": loops.run_while_loop,
    "pipeline": _pipeline,
    "negated_command": _negated,
    "test_command": evaluate_condition,
    "redirected_statement": simple_commands.run_redirected,
    "command": simple_commands.run_command,
    "function_definition": _define,
    "variable_assignment": _assignment,
    "variable_assignments": lambda frame, node: _all(frame, node.named_children),
    "declaration_command": _declaration,
    "unset_command": _unset,
}
