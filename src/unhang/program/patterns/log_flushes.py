"""Where a program waits until its metrics log is written: ``flush()`` of a writer it made, outside its end."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.program.syntax.syntax_tree import ParsedFile, call_name, dotted, parse_file

WRITERS = {"SummaryWriter", "FileWriter", "EventFileWriter"}
_AT_THE_END = ("close", "finish", "shutdown", "teardown", "stop", "__exit__", "__del__", "_end", "finalize")


@dataclass(frozen=True, slots=True)
class LogFlush:
    """``writer.flush()`` on ``line`` of ``path``; ``writer`` was made by ``made`` (``SummaryWriter``)."""

    path: str
    line: int
    function: str
    writer: str
    made: str


def log_flushes(source: SourceFile) -> Iterator[LogFlush]:
    """Such calls of one file, by line. A writer that is handed to something else first is not followed."""
    program = parse_file(source.text) if "flush(" in source.text else ""
    if isinstance(program, str):
        return
    writers = dict(_writers(program))
    calls = (node for node in ast.walk(program.tree) if isinstance(node, ast.Call)) if writers else ()
    for call in sorted(calls, key=lambda node: node.lineno):
        name = dotted(call.func.value) if isinstance(call.func, ast.Attribute) and call.func.attr == "flush" else None
        place = program.place(call.lineno) if name in writers else None
        if name is None or place is None or not _is_repeated(place.scopes, place.levels):
            continue
        yield LogFlush(source.path, call.lineno, getattr(place.function, "name", "<module>"), name, writers[name])


def _writers(program: ParsedFile) -> Iterator[tuple[str, str]]:
    """(name of the variable, class) of writers that are made and kept as they are."""
    for node in ast.walk(program.tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        made = call_name(node.value)
        for target in node.targets if made in WRITERS else ():
            name = dotted(target)
            if name:
                yield name, made


def _is_repeated(scopes: tuple[object, ...], levels: tuple[object, ...]) -> bool:
    """In a loop, or in a function that is not the end of the program."""
    if any(isinstance(getattr(level, "statement", None), ast.For | ast.While | ast.AsyncFor) for level in levels):
        return True
    name = str(getattr(scopes[-1], "name", ""))
    return bool(name) and name != "main" and not name.endswith(_AT_THE_END)
