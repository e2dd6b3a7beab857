"""Functions of a program that nothing it runs ever names: what stands in them is not this launch's.

A function counts as reached as soon as its name stands anywhere in what is reached, be it in a text; so do all methods
of a class that is derived from a library's, all methods where ``getattr`` asks an object for what only running tells
and it may be called, and everything where it asks a module.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePosixPath

from unhang.evidence.items import SourceFile
from unhang.knowledge.collectives import source_names
from unhang.program.syntax.syntax_tree import Function, ParsedFile, call_name, parsed_files, replaced

_CALLS_ANYTHING = {"eval", "exec", "globals", "__import__", "getmembers"}
_READS = (
    ast.Compare,
    ast.BinOp,
    ast.UnaryOp,
    ast.FormattedValue,
    ast.If,
    ast.While,
    ast.Assert,
    ast.Attribute,
    ast.Expr,
)


def without_unreached_functions(
    files: Sequence[SourceFile], keep: Collection[str] = ()
) -> tuple[tuple[SourceFile, ...], int]:
    """The files with the bodies of functions blank that are never reached, lines kept; and how many those are.

    ``keep``: paths of files that something else calls into: the script, and code that an argument names.
    """
    programs = list(parsed_files(files))
    if len(programs) != len(files):
        return tuple(files), 0
    whole = [program for file, program in programs if file.path in keep]
    modules = {PurePosixPath(file.path).stem for file in files}
    unreached = _unreached([program for _, program in programs], whole, modules)
    if not unreached:
        return tuple(files), 0
    return tuple(_without(file, program, unreached) for file, program in programs), len(unreached)


def _unreached(programs: Sequence[ParsedFile], whole: Sequence[ParsedFile], modules: Collection[str]) -> set[ast.AST]:
    roots = [scope for program in whole for scope in program.owners]
    waiting: list[ast.AST] = [*roots, *(program.tree for program in programs if program not in whole)]
    of_name: dict[str, list[ast.AST]] = {}
    named: set[str] = set()
    kept: set[ast.AST] = set(roots)
    classes = [node for program in programs for node in program.nodes if isinstance(node, ast.ClassDef)]
    own_classes = {one.name for one in classes}
    methods = {inner.name for one in classes for inner in one.body if isinstance(inner, Function)}
    asked = {call for program in programs for call in _asked_to_call(program)}
    while waiting:
        for node in _outer_nodes(waiting.pop(), own_classes):
            if isinstance(node, Function):
                of_name.setdefault(node.name, []).append(node)
                if node in kept:
                    continue
                if node.name in named or is_registered(node) or _is_special(node.name):
                    kept.add(node)
                    waiting.append(node)
                continue
            if isinstance(node, ast.Call):
                owner = node.args[0] if node in asked else None
                if _calls_anything(node) or (isinstance(owner, ast.Name | ast.Call) and _may_be_module(owner, modules)):
                    return set()
                if owner is not None:
                    named |= methods
                    fresh = [one for name in methods for one in of_name.get(name, ()) if one not in kept]
                    kept.update(fresh)
                    waiting += fresh
            for name in _names(node):
                named.add(name)
                fresh = [one for one in of_name.get(name, ()) if one not in kept]
                kept.update(fresh)
                waiting += fresh
    return {one for found in of_name.values() for one in found if one not in kept}


def _outer_nodes(root: ast.AST, own_classes: set[str]) -> Iterator[ast.AST]:
    """The nodes of ``root``; of functions inside it, the ``def`` with its decorators and defaults only."""
    waiting = list(ast.iter_child_nodes(root))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function):
            waiting += [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        elif not _is_export(node):
            waiting.extend(ast.iter_child_nodes(node))
        yield node
        if isinstance(node, ast.ClassDef) and _is_of_a_library(node, own_classes):
            for method in node.body:  # the library calls them by names of its own
                if isinstance(method, Function):
                    yield ast.Name(id=method.name, ctx=ast.Load())


def _may_be_module(owner: ast.Name | ast.Call, modules: Collection[str]) -> bool:
    name = owner.id if isinstance(owner, ast.Name) else call_name(owner)
    return name in modules or "module" in name.lower()


def _is_of_a_library(node: ast.ClassDef, own_classes: set[str]) -> bool:
    names = {getattr(base, "attr", getattr(base, "id", "")) for base in node.bases}
    return bool(names - own_classes - {"object", "ABC", "Protocol"}) or bool(node.keywords)


def _is_export(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def is_registered(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator may hand the function to something that calls it."""
    names = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
    return any(getattr(one, "attr", getattr(one, "id", "")) not in source_names("plain_decorator") for one in names)


def _calls_anything(call: ast.Call) -> bool:
    """``globals()[name]``: what is called there only running tells."""
    return getattr(call.func, "id", "") in _CALLS_ANYTHING


def _asked_to_call(program: ParsedFile) -> Iterator[ast.Call]:
    """Each ``getattr`` by a name that only running tells, unless what it gives is only read: nothing is called then."""
    nodes = list(program.nodes)
    if not any(isinstance(node, ast.Call) and _is_asked_by_name(node) for node in nodes):
        return
    called = {getattr(n.func, "id", getattr(n.func, "attr", "")) for n in nodes if isinstance(n, ast.Call)}
    for parent in nodes:
        for child in ast.iter_child_nodes(parent):
            given = child.value if isinstance(child, ast.keyword) else child
            if isinstance(given, ast.Call) and _is_asked_by_name(given) and not _only_reads(parent, given, called):
                yield given


def _is_asked_by_name(call: ast.Call) -> bool:
    return (
        getattr(call.func, "id", "") == "getattr" and len(call.args) > 1 and not isinstance(call.args[1], ast.Constant)
    )


def _only_reads(parent: ast.AST, given: ast.Call, called: Collection[str]) -> bool:
    if isinstance(parent, ast.Call):
        return parent.func is not given and getattr(parent.func, "id", "") in source_names("calls_nothing")
    if isinstance(parent, ast.Assign):
        return not any(getattr(one, "id", getattr(one, "attr", None)) in (None, *called) for one in parent.targets)
    return isinstance(parent, _READS)


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.ImportFrom):
        yield from (one.name for one in node.names if one.asname)  # the new name stands for it
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
        yield node.value.rpartition(".")[2].rpartition(":")[2]


def _without(file: SourceFile, program: ParsedFile, unreached: set[ast.AST]) -> SourceFile:
    gone = [one for one, around in program.owners.items() if one in unreached and unreached.isdisjoint(around)]
    return SourceFile(file.source, file.path, replaced(file.text, ((one, "pass") for one in gone))) if gone else file
