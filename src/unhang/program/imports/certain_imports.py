"""What a launch reads in any case: its script, and modules of the project that those before them import on top."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.program.imports.import_graph import ImportFollower
from unhang.program.imports.import_statements import ImportStatement, imports_of
from unhang.program.imports.launch_entry import LaunchEntry
from unhang.program.syntax.syntax_tree import ParsedFile, parse_file


@dataclass(frozen=True, slots=True)
class CertainModule:
    """``imports``: those at its top that nothing catches or replaces; ``own``: packages among them that are the
    project's."""

    path: str
    text: str
    program: ParsedFile
    imports: tuple[ImportStatement, ...]
    own: frozenset[str]


def certain_modules(start: LaunchEntry) -> Iterator[CertainModule]:
    """The script first, then what it imports."""
    follower, finder = ImportFollower(start.finder.folders, start, 0.0), start.finder
    read = [start.script] if start.script else []
    for path in read:
        text = finder.folders.read(path).found or ""
        program = parse_file(text)
        if isinstance(program, str):
            continue
        lines = {node.lineno for node in program.tree.body if isinstance(node, ast.Import | ast.ImportFrom)}
        on_top = (one for one in imports_of(program.tree, text) if one.line in lines)
        needed = tuple(one for one in on_top if not (one.optional or one.instead))
        own: set[str] = set()
        for one in needed:
            found = follower.found(one, path)
            files = [file for file in (found.files if found else ()) if follower.is_own(file)]
            own |= {one.package} if files else set()
            read += [file for file in files if file not in read]
        yield CertainModule(path, text, program, needed, frozenset(own))
