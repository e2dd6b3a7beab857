"""Trees are gone through as ``ast`` does, only once."""

from __future__ import annotations

import ast
from pathlib import Path

from unhang.program.syntax import syntax_tree
from unhang.program.syntax.syntax_tree import ParsedFile, children, parse_file, walk


def test_all_of_a_file_is_met_in_the_order_of_ast() -> None:
    program = parse_file(Path(syntax_tree.__file__).read_text(encoding="utf-8"))
    assert isinstance(program, ParsedFile)
    every = [node for node in ast.walk(program.tree) if not isinstance(node, ast.expr_context)]

    assert list(walk(program.tree)) == every
    assert {program.tree, *program.nodes} == set(every)
    assert children(program.tree) is children(program.tree)
