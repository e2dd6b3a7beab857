"""Code that names modules in full, in the words of a file that imports them in its own way."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from unhang.program.syntax.source_text import Replacement, SourceText


def in_words_of(file: SourceText, tree: ast.Module, code: str) -> tuple[str, tuple[Replacement, ...]] | None:
    """``code`` as ``file`` can say it, with the imports that it lacks.

    None where the file uses the names of ``code`` for something else, or has no imports to put another one behind.
    """
    bound, imports, spelled = _bound_names(tree), list[str](), list[tuple[ast.expr, str]]()
    names = {meaning: name for name, meaning in bound.items()}
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        module, member = node.value.id, f"{node.value.id}.{node.attr}"
        if member in names:
            spelled.append((node, names[member]))
        elif module in names:
            spelled.append((node.value, names[module]))
        elif module not in bound:
            imports.append(f"import {module}")
        elif node.attr not in bound:
            imports.append(f"from {module} import {node.attr}")
            spelled.append((node, node.attr))
        else:
            return None
    for part, name in sorted(spelled, key=lambda one: -one[0].col_offset):
        code = code[: part.col_offset] + name + code[part.end_col_offset :]
    place = _behind_imports(file, tree) if imports else 0
    if place is None:
        return None
    return code, tuple(Replacement(place, place, f"{line}{file.newline}") for line in imports)


def _bound_names(tree: ast.Module) -> Mapping[str, str]:
    """What each name of a file stands for where only one import says so; empty where anything else does."""
    bound: dict[str, str] = {}
    above = set(tree.body)
    for node in ast.walk(tree):
        for name, meaning in _bound_by(node).items():
            bound[name] = meaning if node in above and bound.get(name, meaning) == meaning else ""
    return bound


def _bound_by(node: ast.AST) -> dict[str, str]:
    if isinstance(node, ast.Import):
        roots = ((one, one.name.partition(".")[0]) for one in node.names)
        return {one.asname or root: one.name if one.asname else root for one, root in roots}
    if isinstance(node, ast.ImportFrom):
        return {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    if isinstance(node, ast.Name):
        return {} if isinstance(node.ctx, ast.Load) else {node.id: ""}
    name = getattr(node, "arg" if isinstance(node, ast.arg) else "name", None)
    return {name: ""} if isinstance(name, str) and not isinstance(node, ast.alias) else {}


def _behind_imports(file: SourceText, tree: ast.Module) -> int | None:
    """Where the imports at the head of the file end."""
    last = None
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            last = node
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            break
    return None if last is None else file.start_of((last.end_lineno or last.lineno) + 1)
