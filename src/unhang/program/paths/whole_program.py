"""Reads a program for its collectives, once for all inspections that ask."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.late_pattern import late_pattern
from unhang.program.data_flow.program_flow import ProgramFlow
from unhang.program.paths.collective_traces import CollectiveTraces
from unhang.program.paths.divergence_search import DivergenceSearch
from unhang.program.paths.divergent_paths import ProgramPaths
from unhang.program.paths.reachable_functions import reachable_functions
from unhang.program.rank_dependence.unseeded_splits import GENERATORS, seeded_alike
from unhang.program.syntax.call_graph import CallGraph
from unhang.program.syntax.syntax_tree import parsed_files

MAX_S = 10.0
"""Of processor time for one program; what was not read by then is said to be missing."""
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
    calls = CallGraph(parsed_files(files))
    launch = reachable_functions(calls, entered or tuple(file.path for file in files[:1]))
    flow = ProgramFlow(calls, list(launch), seeds=_seeded_alike(files, calls), sharded=sharded, until=until)
    told = {one: tuple(w.at(line, text) for w, line, text in way) for one, way in launch.items()}
    traces = CollectiveTraces(flow.reads)
    ways = ProgramPaths(flow, told, traces, partly=len(flow.reads) < len(launch))
    ways.partings = tuple(DivergenceSearch(ways, until).found())
    if flow.around.trains_all_parts:
        ways.left_out = tuple(DivergenceSearch(ways, until, parts=True).found())
    return ways


def _seeded_alike(files: Sequence[SourceFile], calls: CallGraph) -> frozenset[str]:
    """Global generators with the same seed on every rank; the trainers of these libraries seed all of them so."""
    made = (calls.outside(call.func, one) for one in calls.defined for call in one.calls)
    bases = (base for one in calls.defined if one.owner is not None for base in one.owner.bases)
    if any(name.startswith(_SEEDING) and name.endswith("Trainer") for name in made) or "Trainer" in bases:
        return frozenset(GENERATORS)
    return seeded_alike(files)
