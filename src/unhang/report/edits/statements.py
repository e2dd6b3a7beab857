"""A statement on a line of its own before the one that holds a call."""

from __future__ import annotations

import ast

from unhang.knowledge.edits import EditRow
from unhang.program.syntax.source_text import Replacement, SourceText, calls_named
from unhang.program.syntax.syntax_tree import ParsedFile, first_line
from unhang.report.edits.module_names import in_words_of


def put_before(file: SourceText, program: ParsedFile, line: int, row: EditRow) -> tuple[Replacement, ...]:
    """Empty in a loop, which would do it again and again, and where other code stands on the line."""
    place = program.place(line)
    calls = [call for call in calls_named(program.nodes, row.calls) if call.lineno == line]
    if place is None or place.statement is None or len(calls) != 1 or not row.code:
        return ()
    if any(isinstance(level.statement, ast.For | ast.AsyncFor | ast.While) for level in place.levels[:-1]):
        return ()
    first = first_line(place.statement)
    start, said = file.start_of(first), in_words_of(file, program.tree, row.code)
    indent = file.text[start : file.at(first, place.statement.col_offset)]
    if said is None or indent.strip():
        return ()
    return (Replacement(start, start, f"{indent}{said[0]}{file.newline}"), *said[1])
