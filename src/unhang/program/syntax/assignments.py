"""What the statements of a scope give to names, as they are spelled."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from unhang.program.syntax.syntax_tree import (
    Function,
    Scope,
    call_name,
    dotted,
    own_nodes,
    parameters_of,
    parse_expression,
)


def annotated_types(annotation: ast.expr | None) -> Iterator[ast.expr]:
    """``Trainer`` of ``"Trainer"``, ``Trainer | None`` and ``Optional[Trainer]``."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = parse_expression(annotation.value)
    if isinstance(annotation, ast.BinOp):
        yield from annotated_types(annotation.left)
        yield from annotated_types(annotation.right)
    elif isinstance(annotation, ast.Subscript):
        yield from annotated_types(annotation.slice)
    elif isinstance(annotation, ast.Tuple) and annotation.elts:
        yield from annotated_types(annotation.elts[-1])  # of a dict its values
    elif isinstance(annotation, ast.Name | ast.Attribute):
        yield annotation


def bind_arguments(
    names: Sequence[str], plain: Sequence[ast.expr], words: Sequence[ast.keyword]
) -> Iterator[tuple[str, ast.expr]]:
    """Parameters with what a call gives for them."""
    for name, value in zip(names, plain, strict=False):
        if isinstance(value, ast.Starred):
            break
        yield name, value
    yield from ((word.arg, word.value) for word in words if word.arg)


_PUTS_IN = {"append", "add", "extend", "insert", "appendleft", "setdefault"}


@lru_cache(maxsize=65536)
def inner_functions(scope: Scope) -> Sequence[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions that are defined in a scope itself."""
    return [node for node in own_nodes(scope) if isinstance(node, Function)]


@lru_cache(maxsize=65536)
def all_assigned(scope: ast.AST) -> Mapping[str, Sequence[ast.expr | None]]:
    """Values that ``scope`` gives to names, also to ``self.x``; a container and its members count as one."""
    found: dict[str, list[ast.expr | None]] = {}
    for node in own_nodes(scope):
        for target, value in _given(node):
            if isinstance(target, ast.Name | ast.Attribute):
                found.setdefault(dotted(target), []).append(value)
    return found


def _given(node: ast.AST) -> Iterator[tuple[ast.expr | None, ast.expr | None]]:
    """What a statement gives to which names."""
    if isinstance(node, ast.withitem):
        if isinstance(node.optional_vars, ast.Name):
            yield node.optional_vars, node.context_expr
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield _member(node.target, node.iter), node.iter
    elif isinstance(node, ast.Call) and call_name(node) in _PUTS_IN and node.args:
        yield node.func.value if isinstance(node.func, ast.Attribute) else None, node.args[-1]
    elif isinstance(node, ast.Assign):
        yield from ((_container(target), node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) or (isinstance(node, ast.AugAssign) and _lists(node.value)):
        yield node.target, node.value


def possible_members(node: ast.expr) -> Sequence[ast.expr]:
    """What stands for ``node``: a container counts as what is in it, a choice as what may be chosen."""
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.BoolOp | ast.Dict):
        return node.values
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return node.elts
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return [node.elt]
    return [node.value] if isinstance(node, ast.Subscript | ast.DictComp) else []


@lru_cache(maxsize=65536)
def returned_values(scope: Scope) -> Sequence[ast.expr]:
    """Values that a function gives back."""
    back = (node.value for node in own_nodes(scope) if isinstance(node, ast.Return))
    return [value for value in back if value is not None]


def _lists(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Tuple | ast.ListComp)


def _container(target: ast.expr) -> ast.expr:
    """``found["a"] = x`` puts x into ``found``."""
    return target.value if isinstance(target, ast.Subscript) else target


def _member(target: ast.expr, over: ast.expr) -> ast.expr | None:
    """What of a loop's target holds a member of ``over``."""
    if not isinstance(target, ast.Tuple):
        return target
    named = call_name(over) if isinstance(over, ast.Call) else ""
    return target.elts[-1] if named in ("enumerate", "items") else None


def assigned_values(scope: ast.AST, name: str) -> Sequence[ast.expr | None]:
    """Values that a scope gives to ``name``."""
    return all_assigned(scope).get(name, ())


def find_annotation(scope: ast.AST, name: str) -> ast.expr | None:
    """The type that a parameter, or a field of a class, is said to have."""
    if isinstance(scope, Function):
        told = parameters_of(scope).get(name)
        return told[0].annotation if told is not None else None
    body = scope.body if isinstance(scope, ast.ClassDef) else []
    fields = (one for one in body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name))
    return next((one.annotation for one in fields if getattr(one.target, "id", "") == name), None)
