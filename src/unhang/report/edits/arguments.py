"""An argument of a call, given by name: added behind the others, or with another value."""

from __future__ import annotations

import ast

from unhang.knowledge.edits import EditRow
from unhang.program.syntax.source_text import Replacement, SourceText, calls_named
from unhang.program.syntax.syntax_tree import ParsedFile, names_in
from unhang.report.edits.module_names import in_words_of


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
