"""Laggards that wait for one of those that wait for them: for an actor in a collective, for a file lock that another
rank holds, for a key of the store that another one was to set.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.evidence.items import Frame
from unhang.facts.laggard.own_work import is_idle_at_line
from unhang.facts.model import Facts, Stall
from unhang.facts.stacks.source_context import is_rank_conditional
from unhang.facts.stacks.stack_divergence import common_block, first_differing_frames
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.findings import Where
from unhang.program.rank_dependence.rank_branches import RankBranch
from unhang.program.rank_dependence.value_for_rank import test_value
from unhang.program.syntax.syntax_tree import ParsedFile, call_name, find_line, find_parsed_file, own_nodes
from unhang.wire.documents.bundle import HeldLock

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
    statement = place.statement if place is not None else None
    if place is None or statement is None:
        return
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


@dataclass(frozen=True, slots=True)
class FileLockCycle:
    """``holder`` has ``lock``, by the kernel's word, and waits for those who want it. ``only``: it is the one lock that
    they may wait for; who asks again and again stands in no line, so that any other lock file may be meant."""

    lock: HeldLock
    holder: int
    behind: tuple[int, Where] | None
    """The line at which the others want it, and where the holder stands below it, in its ``with`` or its block; None
    where it took the lock elsewhere."""
    way_out: tuple[Where, int] | None
    """Else a ``return`` of the function in which the others want it, before the line that lets the lock go there."""
    only: bool


def file_lock_cycle(facts: Facts, stall: Stall) -> FileLockCycle | None:
    """None where the laggards wait for something else, or for a lock that no rank has which waits for them."""
    waiters = {facts.ranks[rank].pid: rank for rank in stall.waiters if facts.ranks[rank].pid is not None}
    for rank in stall.laggards:
        known = facts.ranks[rank]
        named = known.activity is not None and known.activity.what == "file-lock"
        # who asks again and again sleeps in between
        if not named and not is_idle_at_line(known) and (known.activity is None or known.activity.what != "sleep"):
            return None
        host = {lock.pid: lock for lock in known.process.awaits.locks if lock.pid in waiters}
        for pid, lock in host.items():
            if facts.ranks[waiters[pid]].host == known.host:
                holder, only = waiters[pid], named and len(known.process.awaits.locks) == 1
                behind = _behind_lock(facts, rank, holder)
                return FileLockCycle(
                    lock, holder, behind, _way_out(facts, rank, holder) if behind is None else None, only
                )
    return None


def _behind_lock(facts: Facts, waiter: int, holder: int) -> tuple[int, Where] | None:
    above, below = facts.ranks[waiter].activity, facts.ranks[holder].activity
    parted = first_differing_frames(above.frames, below.frames) if above is not None and below is not None else None
    if parted is None or parted[0].line is None:
        return None
    taken, held = (find_line(facts.sources, frame.file, frame.line) for frame in parted)
    if taken is None or held is None:
        return None
    inside = any(level.owner is taken.statement and level.part == "body" for level in held.levels)
    if not inside and common_block(taken, held) is None:
        return None
    return parted[0].line, Where(parted[1].file, parted[1].line, parted[1].function)


_LETS_GO = {"commit", "rollback", "release", "unlock", "close"}


def _way_out(facts: Facts, waiter: int, holder: int) -> tuple[Where, int] | None:
    activity, other = facts.ranks[waiter].activity, facts.ranks[holder].activity
    at = activity.where if activity is not None else None
    place = find_line(facts.sources, at.file, at.line) if at is not None else None
    inside = other is None or any((f.file, f.function) == (at and at.file, at and at.function) for f in other.frames)
    if at is None or at.line is None or place is None or inside:
        return None
    below = [node for node in own_nodes(place.function) if getattr(node, "lineno", 0) > at.line]
    freed = min((n.lineno for n in below if isinstance(n, ast.Call) and call_name(n) in _LETS_GO), default=0)
    left = next((node.lineno for node in below if isinstance(node, ast.Return) and node.lineno < freed), None)
    return (Where(at.file, left, at.function), freed) if left is not None else None


_WAITS = {"get", "wait", "multi_get"}
_SETS = {"set", "compare_set", "multi_set", "append", "add"}


@dataclass(frozen=True, slots=True)
class UnsetKey:
    """``setters`` wait for others and have not set ``key``, which they would at ``where``."""

    key: str
    where: Where
    branch: RankBranch | None
    setters: tuple[int, ...]


def unset_key(facts: Facts, stall: Stall) -> UnsetKey | None:
    """None where not all laggards wait at the store, or no line of the program sets a key that is spelled like it."""
    activities = [facts.ranks[rank].activity for rank in stall.laggards]
    first = activities[0]
    if first is None or first.where is None or any(a is None or a.what != "store-wait" for a in activities):
        return None
    for key in _keys(facts, first.where):
        for where, branch in _set_at(facts, key):
            setters = tuple(rank for rank in stall.direct_waiters if _comes_there(facts, branch, rank))
            if setters:
                return UnsetKey(ast.unparse(key)[:200], where, branch, setters)
    return None


def _keys(facts: Facts, where: Where) -> Iterator[ast.expr]:
    place = find_line(facts.sources, where.file, where.line)
    for call in place.calls(where.line or 0) if place is not None else ():
        if isinstance(call.func, ast.Attribute) and call_name(call) in _WAITS:
            yield from _arguments(call)


def _set_at(facts: Facts, key: ast.expr) -> Iterator[tuple[Where, RankBranch | None]]:
    for path, source in sorted(facts.sources.items()):
        program = find_parsed_file(facts.sources, path)
        if program is None:
            continue
        for node in ast.walk(program.tree):
            sets = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and call_name(node) in _SETS
            if isinstance(node, ast.Call) and sets and any(_alike(key, other) for other in _arguments(node)):
                yield _where(program, path, node.lineno), is_rank_conditional(source, node.lineno)


def _where(program: ParsedFile, path: str, line: int) -> Where:
    place = program.place(line)
    return Where(path, line, getattr(place.function, "name", "<module>") if place is not None else "<module>")


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    """The key, or the keys of a list."""
    for given in call.args[:1]:
        if isinstance(given, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            yield given.elt
        else:
            yield from given.elts if isinstance(given, ast.List | ast.Tuple) else (given,)


def _alike(one: ast.expr, other: ast.expr) -> bool:
    """Spelled alike, or put together from the same beginning."""
    if ast.dump(one) == ast.dump(other):
        return True
    literal = _literal(one)
    return any(map(str.isalpha, literal)) and literal == _literal(other)  # a separator alone names no key


def _literal(key: ast.expr) -> str:
    """What stands at the beginning of it, whatever its values are."""
    if isinstance(key, ast.JoinedStr) and key.values:
        return _literal(key.values[0])
    if isinstance(key, ast.BinOp):
        return _literal(key.left)
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _comes_there(facts: Facts, branch: RankBranch | None, rank: int) -> bool:
    """The branch on the rank around the line, if there is one, lets it through, as far as that can be worked out."""
    if branch is None:
        return True
    value = test_value(branch.test, rank, facts.world_size)
    return value is None or value is (branch.kind == "if")
