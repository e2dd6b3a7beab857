"""A call: an argument given by name, or a statement before it; in the words of a file that imports modules in its own
way."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from unhang.knowledge.edits import EditRow
from unhang.program.syntax.source_text import Replacement, SourceText, calls_named
from unhang.program.syntax.syntax_tree import ParsedFile, first_line, names_in


def edit_argument(file: SourceText, program: ParsedFile, line: int, row: EditRow) -> tuple[Replacement, ...]:
    """Empty where it is not certain which call or value is meant."""
    calls = [call for call in calls_named(program.nodes, row.calls) if call.lineno == line]
    if len(calls) != 1 or not row.name or not _is_plain(calls[0], row.most):
        return ()
    given = next((word.value for word in calls[0].keywords if word.arg == row.name), None)
    said = in_words_of(file, program.tree, row.code) if _may_be_set(given, row) else None
    if said is None:
        return ()
    code, imports = said
    if given is not None:
        return (Replacement(*file.span(given), code), *imports)
    place, comma = _behind_arguments(file, calls[0])
    return (Replacement(place, place, f"{comma}{row.name}={code}"), *imports)


def _is_plain(call: ast.Call, most: int) -> bool:
    """No argument of it is unpacked or a bare generator, and few enough have no name."""
    bare = any(isinstance(one, ast.Starred | ast.GeneratorExp) for one in call.args)
    return not bare and len(call.args) <= most and all(word.arg is not None for word in call.keywords)


def _may_be_set(given: ast.expr | None, row: EditRow) -> bool:
    if given is None:
        return row.given != "present"
    return row.given == "any" or (row.given != "absent" and _is_written_out(given))


def _is_written_out(value: ast.expr) -> bool:
    """Numbers, and what is called with them: no other name says what it is."""
    called = {name for node in ast.walk(value) if isinstance(node, ast.Call) for name in names_in(node.func)}
    return names_in(value) <= called


def _behind_arguments(file: SourceText, call: ast.Call) -> tuple[int, str]:
    """Where a further argument goes, and what parts it from those before."""
    close = file.span(call)[1] - 1
    ends = [end for _, end in (*map(file.span, call.args), *map(file.span, call.keywords))]
    if not ends:
        return close, ""
    last = max(ends)
    return last + file.text[last:close].partition("#")[0].rfind(")") + 1, ", "


def put_before(file: SourceText, program: ParsedFile, line: int, row: EditRow) -> tuple[Replacement, ...]:
    """On a line of its own before the statement that holds a call, or that begins on ``line`` where the row names none.

    Empty where other code stands on the line; for a call also in a loop, which would do it again and again.
    """
    place = program.place(line)
    calls = [call for call in calls_named(program.nodes, row.calls) if call.lineno == line]
    if place is None or place.statement is None or (row.calls and len(calls) != 1):
        return ()
    if row.calls and any(isinstance(one.statement, ast.For | ast.AsyncFor | ast.While) for one in place.levels[:-1]):
        return ()
    first = first_line(place.statement)
    start, said = file.start_of(first), in_words_of(file, program.tree, row.code) if row.calls else (row.code, ())
    indent = file.text[start : file.at(first, place.statement.col_offset)]
    if said is None or indent.strip():
        return ()
    return (Replacement(start, start, f"{indent}{said[0]}{file.newline}"), *said[1])


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
