"""Reads a program for its collectives, once for all inspections that ask: which functions a launch comes to, and on
which ways."""

from __future__ import annotations

import ast
import time
from collections import deque
from collections.abc import Sequence
from functools import lru_cache

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.knowledge.collectives import source_names
from unhang.late_pattern import late_pattern
from unhang.program.data_flow.program_flow import ProgramFlow
from unhang.program.paths.collective_traces import CollectiveTraces
from unhang.program.paths.divergence_search import DivergenceSearch
from unhang.program.paths.divergent_paths import ProgramPaths
from unhang.program.rank_dependence.random_draws import GENERATORS
from unhang.program.rank_dependence.unseeded_splits import SEEDING_TRAINERS, seeded_alike
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import ClassDefinition, FunctionDefinition
from unhang.program.syntax.syntax_tree import Function, dotted, own_nodes, parsed_files
from unhang.program.syntax.unreferenced_functions import is_registered

MAX_S = 10.0
"""Of processor time for one program; what was not read by then is said to be missing."""
_MAY_PART = late_pattern(
    r"rank|[dD]istributed|DDP|FSDP|accelerat|lightning|deepspeed|main_process|is_main|master|process_zero|fabric"
)
CallPath = tuple[tuple[FunctionDefinition, int, str], ...]
_MAX_SHOWN = 8


def find_program_paths(files: Sequence[SourceFile], entered: Sequence[str], *, sharded: bool) -> ProgramPaths | None:
    """What the ranks of a program may meet; None where nothing in it speaks of ranks.

    ``entered``: what is started; ``sharded``: configuration spreads the parameters of its model over ranks.
    """
    return _find_program_paths(tuple((file.path, file.text) for file in files), tuple(entered), sharded)


@lru_cache(maxsize=2)
def _find_program_paths(
    texts: tuple[tuple[str, str], ...], entered: tuple[str, ...], sharded: bool
) -> ProgramPaths | None:
    """Several risks ask for the same program: it is read once."""
    files = [SourceFile(Source(path), path, text) for path, text in texts]
    if not any(_MAY_PART.search(file.text) for file in files):
        return None
    until = time.process_time() + MAX_S
    calls = CallGraph(parsed_files(files))
    launch = _Reaching(calls, entered or tuple(file.path for file in files[:1])).found
    flow = ProgramFlow(calls, list(launch), seeds=_seeded_alike(calls), sharded=sharded, until=until)
    told = {one: tuple(w.at(line, text) for w, line, text in way) for one, way in launch.items()}
    traces = CollectiveTraces(flow.reads)
    ways = ProgramPaths(flow, told, traces, partly=len(flow.reads) < len(launch))
    ways.partings = tuple(DivergenceSearch(ways, until).found())
    if flow.around.trains_all_parts:
        ways.left_out = tuple(DivergenceSearch(ways, until, parts=True).found())
    return ways


def _seeded_alike(calls: CallGraph) -> frozenset[str]:
    """Global generators with the same seed on every rank; the trainers of these libraries seed all of them so."""
    made = (calls.table.outside(call.func, one) for one in calls.defined for call in one.calls)
    bases = (base for one in calls.defined if one.owner is not None for base in one.owner.bases)
    if any(name.startswith(SEEDING_TRAINERS) and name.endswith("Trainer") for name in made) or "Trainer" in bases:
        return frozenset(GENERATORS)
    return seeded_alike(calls)


class _Reaching:
    """``found``: each function that is reached, with the calls that lead there from the start.

    Every file is read when it is imported, so what it does then is reached too.
    """

    def __init__(self, calls: CallGraph, entered: Sequence[str]) -> None:
        self.calls = calls
        self.made: dict[ClassDefinition, CallPath] = {}
        self.named: dict[str, CallPath] = {}
        """Methods that are called of what is not known, by name."""
        modules = [one for one in calls.defined if isinstance(one.node, ast.Module)]
        modules.sort(key=lambda one: one.file.path not in entered)
        self.found: dict[FunctionDefinition, CallPath] = dict.fromkeys(modules, ())
        self.waiting = deque(modules)
        started = {one.file.path for one in modules if _starts(one.node)}
        for one in calls.defined:  # something else calls into these files
            if one.file.path in entered and one.file.path not in started:
                self._reach(one, ())
                if one.owner is not None:
                    self._make(one.owner, ())
        while self.waiting:
            here = self.waiting.popleft()
            for node in own_nodes(here.node):
                self._use(node, here)

    def _reach(self, one: FunctionDefinition, way: CallPath) -> None:
        if one not in self.found:
            self.found[one] = way[-_MAX_SHOWN:]
            self.waiting.append(one)

    def _use(self, node: ast.AST, here: FunctionDefinition) -> None:
        if isinstance(node, ast.Call):
            self._call(node, here)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            way = (*self.found[here], (here, node.lineno, dotted(node)))
            for found in self.calls.referred(node, here):
                if isinstance(found, ClassDefinition):
                    self._make(found, way)
                elif found is not here:
                    self._reach(found, way)
            for getter in self.calls.property_of(node, here) if isinstance(node, ast.Attribute) else ():
                self._reach(getter, way)
        elif isinstance(node, ast.ClassDef):
            self._registered(node, here)
        elif isinstance(node, Function) and is_registered(node):
            self._reach(self.calls.of_node[node], (*self.found[here], (here, node.lineno, node.name)))

    def _registered(self, node: ast.ClassDef, here: FunctionDefinition) -> None:
        """A decorator may hand the class to a registry, which makes it by its name."""
        if all(_is_plain(how) for how in node.decorator_list):
            return
        for found in self.calls.referred(ast.Name(node.name, ast.Load()), here):
            if isinstance(found, ClassDefinition):
                self._make(found, (*self.found[here], (here, node.lineno, node.name)))

    def _call(self, node: ast.Call, here: FunctionDefinition) -> None:
        targets = self.calls.called(node, here)
        way = (*self.found[here], (here, node.lineno, dotted(node.func)))
        for target in targets:
            self._reach(target, way)
        kind = self.calls.made(node, here)
        if kind is not None:
            self._make(kind, way)
        elif isinstance(node.func, ast.Attribute) and (not targets or targets[0].owner is not None):
            self._name(node.func.attr, way)
        elif getattr(node.func, "id", "") == "getattr" and not isinstance(node.args[-1], ast.Constant):
            self._name("*", way)

    def _name(self, name: str, way: CallPath) -> None:
        if name in self.named:
            return
        self.named[name] = way
        for kind in list(self.made):
            for method in kind.methods.values():
                if method.name == name or (name == "*" and kind.bases):
                    self._reach(method, way)

    def _make(self, kind: ClassDefinition, way: CallPath) -> None:
        """What runs once an instance is made: special methods, hooks that a library or the program calls by name."""
        if kind in self.made:
            return
        self.made[kind] = way
        hooks = self.calls.table.external_base(kind) or ("*" in self.named and bool(kind.bases))
        for method in kind.methods.values():
            if hooks or method.name in self.named or method.name.startswith("__"):
                self._reach(method, self.named.get(method.name, way))
        for above in self.calls.table.above(kind):
            self._make(above, way)


def _is_plain(decorator: ast.expr) -> bool:
    """It leaves the class where it is."""
    name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator).rpartition(".")[2]
    return name in source_names("plain_class_decorator")


def _starts(tree: ast.AST) -> bool:
    """Whether the file does anything when it is run, but to define and import."""
    body = getattr(tree, "body", [])
    plain = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Assign, ast.AnnAssign)
    return any(
        not isinstance(one, plain) and not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        for one in body
    )
