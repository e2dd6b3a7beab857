"""Who was to set the key in the store that ranks wait for: found by the key, as the program spells it both times."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.facts.model import Facts, Stall
from unhang.facts.stacks.source_context import is_rank_conditional
from unhang.findings import Where
from unhang.program.rank_dependence.rank_branches import RankBranch
from unhang.program.rank_dependence.value_for_rank import test_value
from unhang.program.syntax.syntax_tree import ParsedFile, call_name, find_line, find_parsed_file

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
    for node in ast.walk(place.levels[-1].statement) if place is not None and place.levels else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and call_name(node) in _WAITS:
            yield from _arguments(node)


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
