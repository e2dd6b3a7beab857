"""The values of all functions of a program: each function is read until it is known what it is given and returns."""

from __future__ import annotations

import ast
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.program.data_flow.call_kinds import ProgramContext
from unhang.program.data_flow.function_reader import FunctionReader
from unhang.program.data_flow.function_steps import FunctionReading
from unhang.program.data_flow.models import find_wrapped_models
from unhang.program.data_flow.rank_dependent_values import RankDependentValues
from unhang.program.data_flow.value_origins import ProgramKnowledge, ValueOrigin
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.syntax_tree import ParsedFile, own_nodes

_MAX_READINGS = 3
"""What is handed down, what loops do to it, and what follows from both."""


class ProgramFlow:
    """Functions of one program, read in this order; what was not read by ``until`` of processor time is left out."""

    def __init__(
        self,
        calls: CallGraph,
        functions: Sequence[FunctionDefinition],
        *,
        seeds: frozenset[str] = frozenset(),
        sharded: bool = False,
        until: float | None = None,
    ) -> None:
        self.calls = calls
        known = ProgramKnowledge(calls, seeds=seeds, learned=ProgramKnowledge(calls, seeds=seeds))
        self.around = ProgramContext(known, find_wrapped_models(calls), set(_packages(calls)), _given(calls))
        if sharded:
            self.around.wrapped.any_sharded = True
            self.around.wrapped.sharded |= self.around.wrapped.shared
        self.reads: dict[FunctionDefinition, FunctionReading] = {}
        self._names: dict[FunctionDefinition, tuple[list[int], list[Mapping[str, ValueOrigin]]]] = {}
        for at in range(_MAX_READINGS):
            if at:
                self.around.known = self.around.known.read_again(loops=at + 1 == _MAX_READINGS)
            for one in (
                functions if at else reversed(functions)
            ):  # first what functions return, then what they are given
                if until is not None and time.process_time() > until:
                    break
                if (reading := self._read(FunctionReader(self.around, one))) is not None:
                    self.reads[one] = reading

    def _read(self, reader: FunctionReader) -> FunctionReading | None:
        """None where a function nests deeper than Python itself follows: nothing more is known of it."""
        try:
            return reader.read()
        except RecursionError:
            return None

    def values_at(self, here: FunctionDefinition, line: int) -> RankDependentValues:
        """The values of a function where its statement on ``line`` begins."""
        if here not in self._names:
            reader = FunctionReader(self.around, here)
            self._read(reader)
            lines = sorted(reader.names_at)
            self._names[here] = lines, [reader.names_at[line] for line in lines]
        lines, names = self._names[here]
        at = bisect_right(lines, line)
        values = RankDependentValues(self.around.known, here)
        values.names = dict(names[at - 1]) if at else {}
        return values


@lru_cache(maxsize=1024)
def flow_of_file(program: ParsedFile) -> ProgramFlow:
    """The values of one file, as far as it tells by itself."""
    calls = CallGraph([(SourceFile(Source(""), "program.py", ""), program)])
    return ProgramFlow(calls, calls.defined)


def _packages(calls: CallGraph) -> Iterator[str]:
    """Libraries that any file imports."""
    for one in calls.defined:
        for node in own_nodes(one.node):
            if isinstance(node, ast.Import):
                yield from (name.name.partition(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]


def _given(calls: CallGraph) -> frozenset[str]:
    """Names of arguments that are given in any call, and not as False; also ``name=True``."""
    words = [word for one in calls.defined for call in one.calls for word in call.keywords if word.arg]
    plain = {w.arg for w in words if isinstance(w.value, ast.Constant) and w.value.value is True}
    given = {w.arg or "" for w in words if not (isinstance(w.value, ast.Constant) and not w.value.value)}
    return frozenset(given | {f"{name}=True" for name in plain})
