"""A shell script, statement by statement, as the shell would go through it. Nothing is run.

Where a condition is known only when it runs, both branches are followed, and what they leave different is not known.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from unhang.findings import Source, say
from unhang.program.launch.follow_session import MOST_DEPTH, Frame, Session
from unhang.program.launch.shell import loops, simple_commands
from unhang.program.launch.shell.builtins import ASKS, builtin
from unhang.program.launch.shell.conditions import arithmetic, condition
from unhang.program.launch.shell.parser import first_error, parsed
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.state import Function, State, merged
from unhang.program.launch.shell.word_expansion import UNTOLD, fields, text

_BODIES = ("program", "compound_statement", "do_group", "else_clause", "subshell")


def run_file(session: Session, state: State, path: str, script: str, line: int | None = None) -> bool | None:
    """Go through ``script``, which is the file at ``path``, or stands in its ``line``."""
    tree, code, trouble = parsed(script.encode("utf-8", "replace"))
    if tree is None:
        assert trouble is not None
        session.note(trouble, Source(path))
        return None
    if session.depth >= MOST_DEPTH:
        session.note(say("scripts that start each other, more than {count} deep", count=MOST_DEPTH), Source(path))
        return None
    session.depth += 1
    frame = Frame(session, state, path, code, run, line=line)
    for torn in first_error(tree):
        session.note(say("this could not be read as shell, so what follows may be wrong"), frame.source(torn))
    try:
        return run(frame, tree)
    except RecursionError:
        session.note(say("it is nested too deeply to be followed"), Source(path))
        return None
    finally:
        session.depth -= 1


def run_text(session: Session, state: State, script: str, source: Source | None) -> bool | None:
    """``eval``, ``sh -c``, ``ssh``: a script inside a script, or inside what the user types."""
    return run_file(session, state, *(("command", script) if source is None else (source.path, script, source.line)))


def run(frame: Frame, node: Any) -> bool | None:
    """One statement: whether it succeeds; None where that is not known."""
    if frame.state.ended or not frame.session.may_go_on():
        return None
    known = _BY_KIND.get(node.type)
    if known is not None:
        return known(frame, node)
    if node.type == "ERROR":
        return _all(frame, [child for child in node.named_children if child.type in _BY_KIND])
    return None


def _all(frame: Frame, nodes: Sequence[Any]) -> bool | None:
    status: bool | None = True
    for node in nodes:
        if node.type != "comment":
            status = run(frame, node)
    return status


def _body(frame: Frame, node: Any) -> bool | None:
    if node.type == "compound_statement" and frame.text(node).startswith("(("):
        return _arithmetic(frame, node)
    if node.type != "subshell":
        return _all(frame, node.named_children)
    kept = frame.state
    frame.state = kept.copy()
    status = _all(frame, node.named_children)
    frame.state = kept
    return status


def _arithmetic(frame: Frame, node: Any) -> bool | None:
    words = frame.text(node)[2:-2].strip()
    loops.count(frame, words, frame.source(node))
    return arithmetic(frame, words)


def _list(frame: Frame, node: Any) -> bool | None:
    left, right = node.named_children[0], node.named_children[-1]
    status = run(frame, left)
    wanted = any(child.type == "&&" for child in node.children)
    if status is None and not _is_asked(frame, left):
        status = True  # a program is taken to succeed
    if status is None:
        branch(frame, node, lambda: run(frame, right), lambda: None)
        return None
    return run(frame, right) if status == wanted else status


def _is_asked(frame: Frame, node: Any) -> bool:
    """A test, rather than a program that does something."""
    while node.type in ("redirected_statement", "pipeline", "list"):
        node = node.named_children[0]
    return node.type != "command" or frame.text(node).split(maxsplit=1)[0] in ASKS


def branch(frame: Frame, node: Any, one: Callable[[], Any], other: Callable[[], Any]) -> None:
    """Follow both, and go on with what they agree on."""
    start, source = frame.state, frame.source(node)
    ends = []
    for way in (one, other):
        frame.state = start.copy()
        frame.state.conditions = (*start.conditions, source)
        way()
        frame.state.conditions = start.conditions
        ends.append(frame.state)
    start.become(merged(ends[0], ends[1], frame.session.parts, source))
    frame.state = start


def _if(frame: Frame, node: Any) -> bool | None:
    return _clauses(frame, node, [node, *(child for child in node.named_children if child.type == "elif_clause")])


def _clauses(frame: Frame, node: Any, clauses: list[Any]) -> bool | None:
    if not clauses:
        last = [child for child in node.named_children if child.type == "else_clause"]
        return _all(frame, last)
    conditions, body = _parts(clauses[0])
    status = _all(frame, conditions)
    if status is None:
        branch(frame, clauses[0], lambda: _all(frame, body), lambda: _clauses(frame, node, clauses[1:]))
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


def _case(frame: Frame, node: Any) -> bool | None:
    subject = text(frame, node.child_by_field_name("value"))
    items = [child for child in node.named_children if child.type == "case_item"]
    return _items(frame, subject, items)


def _items(frame: Frame, subject: str, items: list[Any]) -> bool | None:
    for at, item in enumerate(items):
        patterns = [text(frame, one) for one in item.children_by_field_name("value")]
        body = [one for one in item.named_children if one not in item.children_by_field_name("value")]
        if "*" in patterns:
            return _all(frame, body)
        if not is_known(subject):
            branch(frame, item, partial(_all, frame, body), partial(_items, frame, subject, items[at + 1 :]))
            return None
        if any(fnmatch.fnmatchcase(subject, pattern.replace("\\", "")) for pattern in patterns):
            return _all(frame, body)
    return True


def _pipeline(frame: Frame, node: Any) -> bool | None:
    stages = [child for child in node.named_children if child.type != "comment"]
    kept_in, kept_out, status = frame.stdin, frame.output, None
    for stage in stages:
        last = stage is stages[-1]
        frame.output = kept_out if last else []
        status = run(frame, stage)
        if not last:
            told = "".join(frame.output or ())
            frame.stdin = None if UNTOLD in told else told
    frame.stdin, frame.output = kept_in, kept_out
    return status


def _negated(frame: Frame, node: Any) -> bool | None:
    status = run(frame, node.named_children[-1])
    return None if status is None else not status


def _define(frame: Frame, node: Any) -> bool | None:
    name = frame.text(node.child_by_field_name("name"))
    frame.state.functions[name] = Function(node.child_by_field_name("body"), frame.code, frame.file)
    return True


def _assignment(frame: Frame, node: Any) -> bool | None:
    simple_commands.assign(frame, node)
    return True


def _declaration(frame: Frame, node: Any) -> bool | None:
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
            own(frame, fields(frame, child), frame.source(child))
    return True


def _unset(frame: Frame, node: Any) -> bool | None:
    for child in node.named_children:
        frame.state.unset(frame.text(child))
    return True


_BY_KIND: dict[str, Callable[[Frame, Any], bool | None]] = {
    **dict.fromkeys(_BODIES, _body),
    "list": _list,
    "if_statement": _if,
    "case_statement": _case,
    "for_statement": loops.for_each,
    "c_style_for_statement": loops.counted,
    "while_statement": loops.while_true,
    "pipeline": _pipeline,
    "negated_command": _negated,
    "test_command": condition,
    "redirected_statement": simple_commands.redirected,
    "command": simple_commands.command,
    "function_definition": _define,
    "variable_assignment": _assignment,
    "variable_assignments": lambda frame, node: _all(frame, node.named_children),
    "declaration_command": _declaration,
    "unset_command": _unset,
}
