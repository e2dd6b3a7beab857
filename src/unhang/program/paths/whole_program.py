"""Reads a program for its collectives, once for all inspections that ask."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.late_pattern import late_pattern
from unhang.program.data_flow.call_kinds import ProgramContext
from unhang.program.data_flow.function_reader import FunctionReader
from unhang.program.data_flow.function_steps import FunctionReading
from unhang.program.data_flow.value_origins import ProgramKnowledge
from unhang.program.data_flow.wrapped_models import find_wrapped_models
from unhang.program.paths.collective_traces import CollectiveTraces
from unhang.program.paths.divergence_search import DivergenceSearch
from unhang.program.paths.divergent_paths import ProgramPaths, SourceLine
from unhang.program.paths.reachable_functions import reachable_functions
from unhang.program.rank_dependence.unseeded_splits import GENERATORS, seeded_alike
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.definitions import FunctionDefinition
from unhang.program.syntax.syntax_tree import own_nodes

MAX_S = 10.0
"""Of processor time for one program; what was not read by then is said to be missing."""
_MAX_READINGS = 3
"""What is handed down, what loops do to it, and what follows from both."""
_SEEDING = ("transformers.", "trl.")
_MAY_PART = late_pattern(
    r"rank|[dD]istributed|DDP|FSDP|accelerat|lightning|deepspeed|main_process|is_main|master|process_zero|fabric"
)


def find_program_paths(
    files: Sequence[SourceFile], entered: Sequence[str] = (), *, sharded: bool = False
) -> ProgramPaths | None:
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
    calls = CallGraph(files)
    launch = reachable_functions(calls, entered or tuple(file.path for file in files[:1]))
    seeds = _seeded_alike(files, calls)
    known = ProgramKnowledge(calls, seeds=seeds, learned=ProgramKnowledge(calls, seeds=seeds))
    around = ProgramContext(known, find_wrapped_models(calls), set(_packages(calls)), _given(calls))
    if sharded:
        around.wrapped.any_sharded = True
        around.wrapped.sharded |= around.wrapped.shared
    reads: dict[FunctionDefinition, FunctionReading] = {}
    for at in range(_MAX_READINGS):
        if at:
            around.known = around.known.read_again(loops=at + 1 == _MAX_READINGS)
        for one in launch if at else reversed(launch):  # first what functions return, then what they are given
            if time.process_time() > until:
                break
            reads[one] = FunctionReader(around, one).read()
    told = {
        one: tuple(SourceLine(w.file.path, line, w.full_name, text) for w, line, text in way)
        for one, way in launch.items()
    }
    ways = ProgramPaths(calls, reads, told, CollectiveTraces(reads), around, partly=len(reads) < len(launch))
    ways.partings = tuple(DivergenceSearch(ways, until).found())
    if around.trains_all_parts:
        ways.left_out = tuple(DivergenceSearch(ways, until, parts=True).found())
    return ways


def _packages(calls: CallGraph) -> Iterator[str]:
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


def _seeded_alike(files: Sequence[SourceFile], calls: CallGraph) -> frozenset[str]:
    """Global generators with the same seed on every rank; the trainers of these libraries seed all of them so."""
    made = (calls.outside(call.func, one) for one in calls.defined for call in one.calls)
    bases = (base for one in calls.defined if one.owner is not None for base in one.owner.bases)
    if any(name.startswith(_SEEDING) and name.endswith("Trainer") for name in made) or "Trainer" in bases:
        return frozenset(GENERATORS)
    return seeded_alike(files)
