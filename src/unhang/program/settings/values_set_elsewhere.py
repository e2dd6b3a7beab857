"""Values that come from another place than a test stands at: a branch above, a call, the module, an attribute."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from unhang.program.settings.assigned_settings import only_one
from unhang.program.settings.declared_options import UNKNOWN
from unhang.program.syntax.syntax_tree import Scope, blocks

if TYPE_CHECKING:
    from unhang.program.settings.branch_conditions import Evaluation

_Around = tuple[tuple[ast.If, str], ...]


def of_module(one: Evaluation, module: ast.Module, name: str) -> Any:
    """A name that the module gives one value, and no function another."""
    values = one.settings.names.assigned(module).get(name, ())
    if len(values) != 1 or values[0] is None or name in _globals(module) or not one.may_look():
        return UNKNOWN
    return one.there(one.path, (module,), one.constants).value(values[0])


def handed_down(one: Evaluation, scope: Scope, name: str) -> Any:
    """A parameter that every call gives the same setting: ``make(args.path, args.kind)``."""
    found = []
    for value, path, scopes in one.settings.names.given(scope, name) or ():
        if not one.may_look():
            return UNKNOWN
        there = one.there(path, scopes)
        found.append(there.value(value))
        one.looks = there.looks
        if found[-1] is UNKNOWN:
            return UNKNOWN
    return found[0] if found and all(other == found[0] for other in found) else UNKNOWN


def put_on(one: Evaluation, kinds: set[str], name: str) -> Any:
    """An attribute that no parser knows, and that one place of the program puts on its settings."""
    names = one.settings.names
    stored = only_one(names.stored.get(name, ()))
    if stored is None or stored.value is None or names.filled_in.keys() & kinds or not one.may_look():
        return UNKNOWN
    there = one.there(stored.path, stored.scopes)
    value = there.value(stored.value) if there.kinds(stored.owner) == kinds else UNKNOWN
    one.looks = there.looks
    return value


def only_taken(one: Evaluation, scope: Scope, name: str, stores: int) -> ast.expr | None:
    """The one value that this launch gives ``name``, of ``stores`` in the scope; None where that is not known."""
    values = [(value, around) for target, value, around in _assigned(scope.body, ()) if target == name]
    if len(values) != stores:
        return None
    left = [value for value, around in values if not any(_excludes(one, *test) for test in around)]
    return left[0] if len(left) == 1 else None


def _excludes(one: Evaluation, node: ast.If, part: str) -> bool:
    truth = one.truth(node.test)
    return truth is not None and truth is not (part == "body")


def _assigned(block: Sequence[ast.stmt], around: _Around) -> Iterator[tuple[str, ast.expr, _Around]]:
    """Plain ``name = value``, with the tests above it."""
    for statement in block:
        if isinstance(statement, ast.Assign):
            yield from ((one.id, statement.value, around) for one in statement.targets if isinstance(one, ast.Name))
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for owner, part, inner in blocks(statement):
            here = (*around, (owner, part)) if isinstance(owner, ast.If) else around
            yield from _assigned(inner, here)


@lru_cache(maxsize=1024)
def _globals(module: ast.Module) -> frozenset[str]:
    return frozenset(name for node in ast.walk(module) if isinstance(node, ast.Global) for name in node.names)
