"""Folders listed without sorting, where the order of the files becomes the order of the data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.program.paths.divergent_paths import ProgramPaths
from unhang.program.syntax.definitions import FunctionDefinition, SourceLine
from unhang.program.syntax.syntax_tree import call_name, dotted, names_in, own_nodes, walk

_LISTS = {"listdir", "walk", "scandir", "iglob", "glob", "rglob", "iterdir"}
_ORDERS = {"sorted", "sort", "natsorted", "set", "frozenset", "argsort"}
_DATA = ("dataset", "dataloader", "loader")


@dataclass(frozen=True, slots=True)
class UnsortedListing:
    """``call`` gives files in the order of the file system; ``used``: where they become data."""

    call: SourceLine
    used: SourceLine


def unsorted_listings(ways: ProgramPaths) -> Iterator[UnsortedListing]:
    """Such calls in functions that sort nothing."""
    for one in ways.launch:
        nodes = own_nodes(one.node)
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        if any(call_name(call) in _ORDERS for call in calls) or isinstance(one.node, ast.Module):
            continue
        listed = next((call for call in sorted(calls, key=lambda c: c.lineno) if _lists(call)), None)
        if listed is None:
            continue
        used = _used_here(one, listed) or _used_by_callers(ways, one)
        if used is not None:
            yield UnsortedListing(one.at(listed.lineno, dotted(listed.func)), used)


def _lists(call: ast.Call) -> bool:
    name, full = call_name(call), dotted(call.func)
    if name in ("walk", "listdir", "scandir"):
        return full in (f"os.{name}", name)
    return name in _LISTS


def _becomes_data(call: ast.Call) -> bool:
    name = call_name(call).lower()
    return any(name.endswith(word) for word in _DATA) and not name.startswith(("is_", "has_", "get_num"))


def _used_here(one: FunctionDefinition, listed: ast.Call) -> SourceLine | None:
    """What is made of the listing goes into a data set in the same function, or is kept by one."""
    held = _made_of(one, listed)
    for node in own_nodes(one.node):
        if isinstance(node, ast.Call) and _becomes_data(node) and held & names_in(node):
            return one.at(node.lineno, dotted(node.func))
        if isinstance(node, ast.Assign) and one.owner is not None and one.owner.name.lower().endswith("dataset"):
            kept = any(isinstance(target, ast.Attribute) for target in node.targets)
            if kept and (held & names_in(node.value) or listed in walk(node.value)):
                return one.at(node.lineno, dotted(node.targets[0]))
    return None


def _used_by_callers(ways: ProgramPaths, one: FunctionDefinition) -> SourceLine | None:
    """The function returns the list, and a caller gives it to a data set."""
    listed = next(node for node in own_nodes(one.node) if isinstance(node, ast.Call) and _lists(node))
    held = _made_of(one, listed)
    back = [n.value for n in own_nodes(one.node) if isinstance(n, ast.Return) and n.value is not None]
    if not any(held & names_in(value) for value in back):
        return None
    for caller, call in ways.flow.calls.callers.get(one, ()):
        if caller not in ways.launch:
            continue
        names = _assigned_from(caller, call)
        for node in own_nodes(caller.node):
            if isinstance(node, ast.Call) and _becomes_data(node) and node is not call:
                inside = any(inner is call for given in node.args for inner in walk(given))
                if inside or names & names_in(node):
                    return caller.at(node.lineno, dotted(node.func))
    return None


def _made_of(one: FunctionDefinition, listed: ast.Call) -> set[str]:
    """Names that hold the files: assigned from the call, or filled in a loop over it."""
    held: set[str] = set()
    for node in own_nodes(one.node):
        if isinstance(node, ast.Assign) and any(inner is listed for inner in walk(node.value)):
            held |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.For) and any(inner is listed for inner in walk(node.iter)):
            for inner in walk(node):
                if isinstance(inner, ast.Call) and call_name(inner) in ("append", "extend", "add"):
                    held.add(dotted(inner.func).partition(".")[0])
    for _ in range(2):
        for node in own_nodes(one.node):
            if isinstance(node, ast.Assign) and held & names_in(node.value):
                held |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return held


def _assigned_from(one: FunctionDefinition, call: ast.Call) -> set[str]:
    return {
        target.id
        for node in own_nodes(one.node)
        if isinstance(node, ast.Assign) and node.value is call
        for target in node.targets
        if isinstance(target, ast.Name)
    }
