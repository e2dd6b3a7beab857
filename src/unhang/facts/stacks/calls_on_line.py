"""What the user's own line calls when no Python frame stands below it: built-in and native calls leave none."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import lru_cache

from unhang.evidence.items import Frame, SourceFile
from unhang.findings import Where
from unhang.knowledge.activities import bare_function
from unhang.knowledge.collectives import source_names
from unhang.knowledge.libraries import is_library_file, module_path
from unhang.program.syntax.name_resolution import ModuleScope, ModuleTable
from unhang.program.syntax.syntax_tree import LinePosition, call_name, dotted, own_nodes, parse_file

_RETURN_WORK_TOO = {"all_gather_single", "reduce_scatter_single", "all_reduce_coalesced"}

_LIBRARY_MAKERS = {"PyDLL", "CDLL", "LoadLibrary", "dlopen"}
_LIBRARY_OBJECTS = {"ctypes.pythonapi", "pythonapi"}


def calls_on_line(source: SourceFile, line: int) -> tuple[str, ...]:
    """Dotted names of the calls that span ``line``, innermost (the one running first) last; empty without source."""
    place = _place(source, line)
    return tuple(dotted(call.func) for call in place.calls(line)) if place is not None else ()


def call_spelled_on_line(source: SourceFile, line: int, name: str) -> str | None:
    """The first call of ``name`` that spans ``line``, as the source spells it."""
    place = _place(source, line)
    calls = place.calls(line) if place is not None else ()
    return next((ast.unparse(call)[:200] for call in calls if call_name(call) == name), None)


def line_into_library(sources: Mapping[str, SourceFile], frames: Sequence[Frame]) -> Where | None:
    """The only own line that can have begun a thread of a library: it calls into the package of the thread's outermost
    function by a name with a word of that one's (``async_save``, ``save_wrapper``). None where none or several can."""
    installed = (f for f in reversed(frames) if not f.native and "-packages/" in f.file and is_library_file(f.file))
    first = next(installed, None)
    if first is None:
        return None
    package, words = module_path(first.file).rpartition("/")[0].replace("/", "."), _words(bare_function(first.function))
    found = _calls_into(tuple((file.path, file.text) for file in sources.values()), package, words)
    return found[0] if len(found) == 1 else None


@lru_cache(maxsize=256)  # the ranks of a job have the same threads
def _calls_into(files: tuple[tuple[str, str], ...], package: str, words: frozenset[str]) -> tuple[Where, ...]:
    """``files``: path and text of each."""
    found = []
    for path, text in files:
        table, parsed = ModuleTable(), parse_file(text)
        if isinstance(parsed, str):
            continue
        table.add(ModuleScope(path, parsed.tree))
        for call in (node for node in parsed.nodes if isinstance(node, ast.Call) and _words(call_name(node)) & words):
            place, name = parsed.place(call.lineno), table.outside(dotted(call.func), path)
            if place is not None and f"{name}.".startswith(f"{package}."):
                found.append(Where(path, call.lineno, getattr(place.function, "name", "")))
    return tuple(found)


def _words(name: str) -> frozenset[str]:
    return frozenset(name.strip("_").split("_"))


def awaited_operation(source: SourceFile, line: int) -> str | None:
    """For ``work.wait()`` on ``line``: the collective whose handle it can only be; ``wait`` when several could.

    None when the function starts no collective whose handle could be waited for.
    """
    place = _place(source, line)
    if place is None:
        return None
    returns_work = source_names("step_collective") | _RETURN_WORK_TOO
    on_line = {call.rpartition(".")[2] for call in calls_on_line(source, line)} & returns_work
    if len(on_line) == 1:
        return on_line.pop()
    started: set[str] = set()
    for node in own_nodes(place.function):
        if isinstance(node, ast.Call) and call_name(node) in returns_work and _gives_handle(node):
            started.add(call_name(node))
    if not started:
        return None
    return started.pop() if len(started) == 1 else "wait"


def calls_into_library(source: SourceFile, line: int) -> bool:
    """True when ``line`` calls a native library through ctypes: ``ctypes.CDLL("x.so")`` or a name bound to it."""
    place = _place(source, line)
    if place is None:
        return False
    bound = {
        target.id if isinstance(target, ast.Name) else target.attr
        for scope in place.scopes
        for node in own_nodes(scope)
        if isinstance(node, ast.Assign) and _opens_library(node.value)
        for target in node.targets
        if isinstance(target, ast.Name | ast.Attribute)
    }
    for call in place.calls(line):
        root = call.func
        while isinstance(root, ast.Attribute):
            if root.attr in bound:
                return True
            root = root.value
        if (isinstance(root, ast.Name) and root.id in bound) or _opens_library(root):
            return True
    return False


def _opens_library(node: ast.AST) -> bool:
    while isinstance(node, ast.Attribute) and dotted(node) not in _LIBRARY_OBJECTS:
        node = node.value
    if isinstance(node, ast.Call):
        return call_name(node) in _LIBRARY_MAKERS
    return dotted(node) in _LIBRARY_OBJECTS


def _gives_handle(call: ast.Call) -> bool:
    if call_name(call) in ("isend", "irecv", "batch_isend_irecv"):
        return True
    return any(
        k.arg == "async_op" and not (isinstance(k.value, ast.Constant) and not k.value.value) for k in call.keywords
    )


def _place(source: SourceFile, line: int) -> LinePosition | None:
    program = parse_file(source.text)
    return None if isinstance(program, str) else program.place(line)
