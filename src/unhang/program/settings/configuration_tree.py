"""Paths in a configuration that is one tree, as Hydra and OmegaConf give it to a program: ``cfg.trainer.steps``."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from unhang.program.settings.configuration_names import ConfigNames
from unhang.program.syntax.syntax_tree import Scope, call_name, dotted

_MAIN = ("hydra.main", "hydra_main", "hydra_runner")
_MAKES_TREE = {"OmegaConf.load", "OmegaConf.merge"}
_DEEP = 8


def configuration_path(names: ConfigNames, scopes: Sequence[Scope], node: ast.expr, deep: int = _DEEP) -> str | None:
    """``a.b`` of ``cfg.a.b``; empty for the tree itself, None for what does not stand in it."""
    if deep <= 0:
        return None
    if isinstance(node, ast.Name):
        return _of_name(names, scopes, node.id, deep)
    key: str | None = None
    owner: ast.expr | None = None
    if isinstance(node, ast.Attribute):
        key, owner = node.attr, node.value
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        key, owner = str(node.slice.value), node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        first = node.args[0]
        key, owner = (str(first.value) if isinstance(first, ast.Constant) else None), node.func.value
    above = configuration_path(names, scopes, owner, deep - 1) if key is not None and owner is not None else None
    return None if above is None else f"{above}.{key}".lstrip(".")


def _of_name(names: ConfigNames, scopes: Sequence[Scope], name: str, deep: int) -> str | None:
    for at in range(len(scopes) - 1, -1, -1):
        scope = scopes[at]
        values = names.assigned(scope).get(name, ())
        if len(values) == 1 and values[0] is not None:
            made = values[0]
            if isinstance(made, ast.Call) and dotted(made.func) in _MAKES_TREE:
                return ""
            return None if _is(made, name) else configuration_path(names, scopes, made, deep - 1)
        if values:
            return None
        if not isinstance(scope, ast.Module) and name in [
            arg.arg for arg in (*scope.args.args, *scope.args.kwonlyargs)
        ]:
            return "" if _is_main(scope) else _handed_down(names, scope, name, deep)
    return None


def _handed_down(names: ConfigNames, scope: Scope, name: str, deep: int) -> str | None:
    given = names.given(scope, name) or ()
    found = {configuration_path(names, scopes, value, deep - 1) for value, _, scopes in given}
    return found.pop() if len(found) == 1 else None


def _is_main(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    called = (one for one in scope.decorator_list if isinstance(one, ast.Call))
    return any(dotted(one.func).endswith(_MAIN) or call_name(one) in _MAIN for one in called)


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
