"""Attributes that a program puts on its settings itself: ``args.wandb = "wandb" in args.report_to``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unhang.program.settings.declared_options import targets_of
from unhang.program.syntax.syntax_tree import ParsedFile, Scope, call_name, dotted, own_nodes


@dataclass(frozen=True, slots=True)
class AttributeAssignment:
    """``owner.name = value`` in a file. ``value``: None where a loop, an unpacking, or ``+=`` gives it, or a branch."""

    name: str
    owner: ast.expr
    value: ast.expr | None
    path: str
    scopes: tuple[Scope, ...]


def attribute_assignments(program: ParsedFile, path: str) -> Iterator[AttributeAssignment]:
    """Every attribute that is given a value; those of ``self`` are no settings' unless their class says so."""
    for scope, outer in program.owners.items():
        scopes, always = (*outer, scope), {id(statement) for statement in scope.body}
        for node in own_nodes(scope):
            if isinstance(node, ast.Call) and call_name(node) == "setattr" and len(node.args) == 3:
                name = node.args[1]
                if isinstance(name, ast.Constant):
                    yield AttributeAssignment(str(name.value), node.args[0], None, path, scopes)
            for target in targets_of(node):
                if isinstance(target, ast.Attribute) and dotted(target.value) != "self":
                    value = _value(node, target) if id(node) in always else None
                    yield AttributeAssignment(target.attr, target.value, value, path, scopes)


def only_assignment(stored: Sequence[AttributeAssignment]) -> AttributeAssignment | None:
    """The one place that assigns a name, if its value is known to be that of every run that comes there."""
    return stored[0] if len(stored) == 1 and stored[0].value is not None else None


def _value(node: ast.AST, target: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Assign):
        return node.value if target in node.targets else None
    return node.value if isinstance(node, ast.AnnAssign) else None
