"""Where a launch is sure to end itself: a ``raise``, an exit or ``parser.error`` under tests that all hold, an
``assert`` that does not, a name that a table of the source lacks. Nothing is run.

Followed is only what every such run comes to: from the script into the files it imports and the functions it calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from unhang.evidence.items import SourceFile
from unhang.program.launch.job_environment import DIFFERS_BY_RANK
from unhang.program.program_source import CertainStop
from unhang.program.settings.branch_conditions import TestEvaluation, variable_read
from unhang.program.settings.option_values import EffectiveValue
from unhang.program.settings.program_settings import ProgramSettings
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.evaluation import UNKNOWN
from unhang.program.syntax.syntax_tree import Function, call_name, children, dotted, parsed_files, walk

_EXITS = {"sys.exit", "exit", "quit", "os._exit", "os.abort"}
_LEAVING = (ast.Return, ast.Continue, ast.Break)
_OF_LAUNCHERS = ("WORLD_SIZE", "MASTER_", "TORCHELASTIC_", "GROUP_", "ROLE_", "OMP_", "SLURM_", "OMPI_", "PMI", "PET_")
_MAX_DEPTH = 40
_MAX_ROUNDS = 64
_ON_SOME_WAYS = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Expressions of which a part may never be worked out."""


@dataclass
class _Values(TestEvaluation):
    """``bound``: what names of loops hold at the moment."""

    bound: Mapping[str, Any] = field(default_factory=dict)

    def held(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name) and node.id in self.bound:
            return self.bound[node.id]
        name = variable_read(node)
        if name is None or not self._is_unset(name):
            return super().held(node)
        given = node.args[1:] if isinstance(node, ast.Call) else []
        self.used.append(EffectiveValue(name, None, "environment"))
        return self.value(given[0]) if given else None if isinstance(node, ast.Call) else UNKNOWN

    def _is_unset(self, name: str) -> bool:
        """Neither the shell nor the command gives the variable a value, nor the launcher, nor the program."""
        values = self.settings.values
        launch, given = values.launch, (*_OF_LAUNCHERS, *DIFFERS_BY_RANK)
        followed = launch.followed
        if name in values.variables or name in followed.unknown or any(part in name for part in given):
            return False
        typed_here = launch.launcher in ("torchrun", "python") and launch.outer in ("", launch.launcher)
        return typed_here and not (followed.image or followed.not_understood or self.sets_variable(name))


def find_certain_stops(files: Sequence[SourceFile], settings: ProgramSettings) -> tuple[CertainStop, ...]:
    """The first such place; none where every way goes on, or what decides it is not known.

    ``files``: as this launch runs them, the script first. Code that arguments name is run at some time, or never.
    """
    search = _Search(settings, CallGraph(parsed_files(files)), {one.path: one.text.splitlines() for one in files})
    script = next((one for one in search.calls.defined if one.file is files[0]), None)
    with suppress(RecursionError, _Found):
        if script is not None and isinstance(script.node, ast.Module):
            search.enter(script, (), {"__name__": "__main__"})
    return tuple(search.found)


class _Found(Exception):
    pass


@dataclass
class _Search:
    settings: ProgramSettings
    calls: CallGraph
    lines: Mapping[str, Sequence[str]]
    found: list[CertainStop] = field(default_factory=list)
    entered: set[FunctionDefinition] = field(default_factory=set)
    depth: int = 0

    def enter(
        self,
        one: FunctionDefinition,
        because: tuple[EffectiveValue, ...],
        bound: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """A function that is run. ``because``: the settings under which it is; ``bound``: names that hold something."""
        if one in self.entered or self.depth > _MAX_DEPTH:
            return
        self.entered.add(one)
        self.depth += 1
        _Way(self, one, because, bound).block(one.node.body)
        self.depth -= 1


@dataclass
class _Way:
    """One way through ``here``, under ``because``."""

    search: _Search
    here: FunctionDefinition
    because: tuple[EffectiveValue, ...]
    bound: Mapping[str, Any] = field(default_factory=dict)

    def block(self, block: Sequence[ast.stmt]) -> bool:
        """Whether what follows ``block`` is sure to be reached, unless something raises."""
        return all(self._statement(one) for one in block)

    def _statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return True
            case ast.If():
                self._expression(node.test)
                return self._branch(node)
            case ast.Assert():
                told = self._values()
                if told.truth(node.test) is False:
                    self._stop(node, told)
                return True
            case ast.Raise():
                self._stop(node, self._values())
                return False
            case ast.With() | ast.AsyncWith():
                for one in node.items:
                    self._expression(one.context_expr)
                return self.block(node.body)
            case ast.For():
                self._expression(node.iter)
                self._rounds(node)
                return not _leaves(node)
            case ast.Try() | ast.While() | ast.Match() | ast.AsyncFor():
                endless = isinstance(getattr(node, "test", None), ast.Constant)
                return not (endless or _leaves(node))
        self._expression(node)
        return not _leaves(node)

    def _branch(self, node: ast.If) -> bool:
        told = self._values()
        truth = told.truth(node.test)
        if truth is None:
            return not _leaves(node)
        inner = _Way(self.search, self.here, (*self.because, *told.used), self.bound)
        return inner.block(node.body if truth else node.orelse)

    def _rounds(self, node: ast.For) -> None:
        """Each round of a loop over what is known."""
        told = self._values()
        over = told.value(node.iter)
        if not isinstance(over, list | dict) or len(over) > _MAX_ROUNDS or not isinstance(node.target, ast.Name):
            return
        for each in over:
            bound = {**self.bound, node.target.id: each}
            if not _Way(self.search, self.here, (*self.because, *told.used), bound).block(node.body):
                break

    def _expression(self, node: ast.AST) -> None:
        """Calls in ``node`` that are made in any case, and names that its tables lack."""
        for one in _always(node):
            if isinstance(one, ast.Import | ast.ImportFrom):
                modules = self.search.calls.table.modules
                for path in modules.files_read(one, self.here.file.path):
                    self.search.enter(self.search.calls.of_node[modules.scopes[path].tree], self.because)
            elif isinstance(one, ast.Call):
                self._call(one)
            elif isinstance(one, ast.Subscript):
                self._look_up(one, self._values())
            elif isinstance(one, ast.ListComp | ast.SetComp | ast.DictComp) and len(one.generators) == 1:
                self._each(one, one.generators[0])

    def _call(self, call: ast.Call) -> None:
        name = dotted(call.func)
        if name in _EXITS and call.args:
            value = self._values().value(call.args[0])
            if value is not UNKNOWN and value not in (0, None):
                self._stop(call, self._values())
        elif call_name(call) == "error" and name.endswith("parser.error"):
            self._stop(call, self._values())
        targets = self.search.calls.called(call, self.here)
        if len(targets) == 1 and not any(isinstance(one, ast.Yield | ast.YieldFrom) for one in walk(targets[0].node)):
            self.search.enter(targets[0], self.because)

    def _each(self, node: ast.ListComp | ast.SetComp | ast.DictComp, over: ast.comprehension) -> None:
        """``[TABLE[name] for name in names]``."""
        told, target = self._values(), over.target
        each = told.value(over.iter)
        if not isinstance(each, list) or not isinstance(target, ast.Name) or over.ifs:
            return
        for value in each[:_MAX_ROUNDS]:
            way = _Way(self.search, self.here, (*self.because, *told.used), {**self.bound, target.id: value})
            for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
                way._expression(part)

    def _look_up(self, node: ast.Subscript, told: _Values) -> None:
        """``TABLE[name]``, of a dictionary that the source writes down and nothing adds to."""
        if not isinstance(node.ctx, ast.Load) or not isinstance(node.value, ast.Name):
            return
        table, key = told.value(node.value), told.value(node.slice)
        is_written_down = isinstance(table, dict) and node.value.id not in self.search.settings.names.items_set
        if is_written_down and isinstance(key, str | int) and key not in table:
            self._stop(node, told, tuple(map(str, table)))

    def _values(self) -> _Values:
        return _Values(self.search.settings, self.here.file.path, self.here.scopes, bound=self.bound)

    def _stop(self, node: ast.stmt | ast.expr, told: _Values, known: tuple[str, ...] = ()) -> None:
        """Unless no setting leads there: what always stops is its author's business."""
        used = dict.fromkeys((one.name, repr(one.value), one.place) for one in (*self.because, *told.used))
        if used:
            line = self.search.lines[self.here.file.path][node.lineno - 1].strip()
            path = self.here.file.path
            self.search.found.append(CertainStop(path, node.lineno, self.here.full_name, line, tuple(used), known))
            raise _Found


def _leaves(node: ast.AST) -> bool:
    """Whether a part of ``node`` ends its function, the loop it stands in, or the process."""
    return any(
        isinstance(one, _LEAVING) or (isinstance(one, ast.Call) and dotted(one.func) in _EXITS) for one in walk(node)
    )


def _always(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of ``node`` that are worked out in any case, inner ones first."""
    if isinstance(node, Function | ast.Lambda):
        return
    inner = () if isinstance(node, _ON_SOME_WAYS) else children(node)
    for one in inner:
        yield from _always(one)
    yield node
