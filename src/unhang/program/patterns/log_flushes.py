"""Where a program waits until its metrics log is written: ``flush()`` of a writer it made, in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.program.rank_dependence.step_loops import step_loops
from unhang.program.syntax.syntax_tree import LinePosition, ParsedFile, call_name, dotted, names_in, parsed_files

WRITERS = {"SummaryWriter", "FileWriter", "EventFileWriter"}
_AT_THE_END = ("close", "finish", "shutdown", "teardown", "stop", "__exit__", "__del__", "_end", "finalize")
_LOOPS = (ast.For, ast.While, ast.AsyncFor)


@dataclass(frozen=True, slots=True)
class LogFlush:
    """``writer.flush()`` on ``line`` of ``path``; ``writer`` was made by ``made`` (``SummaryWriter``)."""

    path: str
    line: int
    function: str
    writer: str
    made: str


def log_flushes(files: Sequence[SourceFile]) -> Iterator[LogFlush]:
    """Such calls of each file, by line. A writer that is handed to something else first is not followed."""
    programs = [program for _, program in parsed_files(files)] if any("flush(" in one.text for one in files) else []
    for source, program in parsed_files(one for one in files if "flush(" in one.text):
        yield from _of_file(source, program, programs)


def _of_file(source: SourceFile, program: ParsedFile, programs: Sequence[ParsedFile]) -> Iterator[LogFlush]:
    writers = dict(_writers(program))
    calls = (node for node in ast.walk(program.tree) if isinstance(node, ast.Call)) if writers else ()
    for call in sorted(calls, key=lambda node: node.lineno):
        name = dotted(call.func.value) if isinstance(call.func, ast.Attribute) and call.func.attr == "flush" else None
        place = program.place(call.lineno) if name in writers else None
        if name is None or place is None or not _is_repeated(place, programs):
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


def _is_repeated(place: LinePosition, programs: Sequence[ParsedFile], deep: int = 3) -> bool:
    """In every round of a loop of steps, or in a function that is called there, or that a library may call."""
    loop = max((at for at, level in enumerate(place.levels) if isinstance(level.statement, _LOOPS)), default=-1)
    inner = place.levels[loop + 1 :]
    tests = (level.statement.test for level in inner if isinstance(level.statement, ast.If))
    if any(_holds(test, ast.Mod) for test in tests):
        return False  # ``if step % 50 == 0:``
    if loop >= 0:
        before = (one for level in inner for one in level.block[: level.index] if isinstance(one, ast.If))
        seldom = any(_holds(one, ast.Continue) for one in before)
        return not seldom and not _is_epoch(place.levels[loop].statement, place)
    name = str(getattr(place.function, "name", ""))
    if not name or name == "main" or name.endswith(_AT_THE_END) or not deep:
        return False
    calls = ((one, node) for one in programs for node in one.nodes if isinstance(node, ast.Call))
    called = (one.place(node.lineno) for one, node in calls if call_name(node) == name)
    around = [one for one in called if one is not None and one.function is not place.function]
    return not around or any(_is_repeated(one, programs, deep - 1) for one in around)


def _holds(node: ast.AST, kind: type[ast.AST]) -> bool:
    return any(isinstance(inner, kind) for inner in ast.walk(node))


def _is_epoch(loop: ast.stmt, place: LinePosition) -> bool:
    """A round goes over all the data: in a loop inside it, or, by its name, in a function that it calls."""
    head = [loop.target, loop.iter] if isinstance(loop, ast.For | ast.AsyncFor) else []
    inner = (step_loops(place.program).facts(node) for node in ast.walk(loop) if node is not loop)
    return any("epoch" in name.lower() for part in head for name in names_in(part)) or any(
        found is not None and found.trains for found in inner
    )
