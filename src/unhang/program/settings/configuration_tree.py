"""Values of a configuration that is one tree, as Hydra and OmegaConf give it to a program: ``cfg.trainer.steps``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from unhang.program.settings.declared_options import UNKNOWN
from unhang.program.settings.option_values import InForce
from unhang.program.syntax.syntax_tree import Scope, call_name, dotted

if TYPE_CHECKING:
    from unhang.program.settings.branch_conditions import Evaluation

_MAIN = ("hydra.main", "hydra_main", "hydra_runner")
_MAKES_TREE = {"OmegaConf.load", "OmegaConf.merge"}
_DEEP = 8


def in_tree(one: Evaluation, node: ast.expr) -> InForce | None:
    """What the files and the command say at ``cfg.a.b``, ``cfg["a"]`` or ``cfg.get("a", 1)``; None for other things."""
    path = path_of(one, node, _DEEP)
    if not path:
        return None
    if path.rpartition(".")[2] in one.settings.names.changed:
        return InForce(path, UNKNOWN, "")
    told = one.settings.values.at(path)
    if told is None and isinstance(node, ast.Call) and len(node.args) > 1:
        return InForce(path, one.value(node.args[1]), f"{one.path}:{node.lineno}")
    return told or InForce(path, UNKNOWN, "")


def path_of(one: Evaluation, node: ast.expr, deep: int) -> str | None:
    """``a.b`` of ``cfg.a.b``; empty for the tree itself, None for what does not stand in it."""
    if deep <= 0:
        return None
    if isinstance(node, ast.Name):
        return _of_name(one, node.id, deep)
    key: str | None = None
    owner: ast.expr | None = None
    if isinstance(node, ast.Attribute):
        key, owner = node.attr, node.value
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        key, owner = str(node.slice.value), node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        first = node.args[0]
        key, owner = (str(first.value) if isinstance(first, ast.Constant) else None), node.func.value
    above = path_of(one, owner, deep - 1) if key is not None and owner is not None else None
    return None if above is None else f"{above}.{key}".lstrip(".")


def _of_name(one: Evaluation, name: str, deep: int) -> str | None:
    names = one.settings.names
    for at in range(len(one.scopes) - 1, -1, -1):
        scope = one.scopes[at]
        values = names.assigned(scope).get(name, ())
        if len(values) == 1 and values[0] is not None:
            made = values[0]
            if isinstance(made, ast.Call) and dotted(made.func) in _MAKES_TREE:
                return ""
            return None if _is(made, name) else path_of(one, made, deep - 1)
        if values:
            return None
        if not isinstance(scope, ast.Module) and name in [
            arg.arg for arg in (*scope.args.args, *scope.args.kwonlyargs)
        ]:
            return "" if _is_main(scope) else _handed_down(one, scope, name, deep)
    return None


def _handed_down(one: Evaluation, scope: Scope, name: str, deep: int) -> str | None:
    given = one.settings.names.given(scope, name) or ()
    found = {path_of(one.there(path, scopes), value, deep - 1) for value, path, scopes in given}
    return found.pop() if len(found) == 1 else None


def _is_main(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    called = (one for one in scope.decorator_list if isinstance(one, ast.Call))
    return any(dotted(one.func).endswith(_MAIN) or call_name(one) in _MAIN for one in called)


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
