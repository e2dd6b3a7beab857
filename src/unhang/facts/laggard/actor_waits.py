"""A rank that waits in ``ray.get`` for a method of an actor which is a rank as well and stands in another of its
methods, or for one that waits for such a method: an actor answers one call after the other, so that this one begins
when the other has ended.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.evidence.items import Frame
from unhang.facts.model import Facts, Stall
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.program.syntax.syntax_tree import (
    call_name,
    find_line,
    find_parsed_file,
    own_nodes,
)

_ANSWERS_MORE = ("max_concurrency", "concurrency_groups")
"""Options with which an actor answers several calls at once."""


@dataclass(frozen=True, slots=True)
class ActorWait:
    """The ranks of a stall wait for ``method`` of an actor of class ``actor``, and the others stand in ``inside``."""

    actor: str
    method: str
    inside: str
    busy: int
    """A rank whose actor is of that class, and in that method."""
    through: str = ""
    """The method that asks for it, where the ranks ask for that one."""


def actor_wait(facts: Facts, stall: Stall) -> ActorWait | None:
    """None where the laggards are in no ``ray.get``, or ask for nothing that those who wait would have to answer."""
    activities = [facts.ranks[rank].activity for rank in stall.laggards]
    first = activities[0]
    if first is None or first.where is None or any(a is None or a.what != "ray-get" for a in activities):
        return None
    asked = dict.fromkeys(_asked(facts, first.where.file, first.where.line), "")
    for through in list(asked):
        asked = {**dict.fromkeys(_asked_inside(facts, through), through), **asked}
    for rank in (*stall.direct_waiters[:1], stall.laggards[0]):
        activity = facts.ranks[rank].activity
        for frame in activity.frames if activity is not None and asked else ():
            found = _class_of(facts, frame)
            methods = found[1] if found is not None else []
            # for a method of its own class it may ask another actor; whoever is asked in between may ask it in turn
            own = rank in stall.laggards
            method = next((name for name in methods if name in asked and (asked[name] or not own)), None)
            if found is not None and method is not None:
                return ActorWait(found[0], method, frame.function.rpartition(".")[2], rank, asked[method])
    return None


def _asked_inside(facts: Facts, method: str) -> Iterator[str]:
    """What a method of that name waits for itself."""
    for path in facts.sources:
        program = find_parsed_file(facts.sources, path)
        for function in program.owners if program is not None else ():
            if getattr(function, "name", "") != method:
                continue
            waits = (node for node in own_nodes(function) if isinstance(node, ast.Call) and call_name(node) == "get")
            for wait in waits:
                yield from _asked(facts, path, wait.lineno)


def _asked(facts: Facts, file: str, line: int | None) -> Iterator[str]:
    """Names of the methods whose results the statement waits for: started in it, or where a name in it was given."""
    place = find_line(facts.sources, file, line)
    if place is None or not place.levels:
        return
    statement = place.levels[-1].statement
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    given = (node for node in own_nodes(place.function) if isinstance(node, ast.Assign | ast.NamedExpr))
    for node in (statement, *(node for node in given if _targets(node) & names)):
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call_name(call) == "remote":
                asked = call.func.value
                yield from (asked.attr,) if isinstance(asked, ast.Attribute) else ()


def _targets(node: ast.Assign | ast.NamedExpr) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _class_of(facts: Facts, frame: Frame) -> tuple[str, list[str]] | None:
    """The class whose method the frame is in, and its methods that wait for their turn."""
    if not is_user_frame(frame, facts.sources):
        return None
    program = find_parsed_file(facts.sources, frame.file)
    line = frame.line or 0
    for node in ast.walk(program.tree) if program is not None else ():
        if isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or node.lineno):
            if any(isinstance(part, ast.AsyncFunctionDef) for part in node.body) or _answers_more(node):
                return None
            return node.name, [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
    return None


def _answers_more(node: ast.ClassDef) -> bool:
    words = (part for decorator in node.decorator_list for part in ast.walk(decorator))
    return any(isinstance(word, ast.keyword) and word.arg in _ANSWERS_MORE for word in words)
