"""Programs that never say which card a rank uses, so that torch guesses it from the rank."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.evidence.items import SourceFile
from unhang.facts.laggard.main_process_first import is_main_first_name
from unhang.findings import Evidence, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.imports.import_statements import imports_of
from unhang.program.launch.job_environment import JobEnvironment
from unhang.program.program_source import ProgramSource
from unhang.program.syntax.syntax_tree import call_name, parse_file, walk

ROWS = RiskRows("devices")
_SETTERS = {"set_device", "set_device_index", "Accelerator", "PartialState", "Trainer", "Fabric", "initialize"}
_CALLED = (*_SETTERS, "init_process_group", "barrier", "_first")
_LIBRARIES = {"accelerate", "transformers", "trl", "lightning", "pytorch_lightning", "deepspeed", "torchtitan", "ray"}
_WITHOUT_DEVICE = {"accelerate", "transformers", "trl"}
"""They make the group without ``device_id`` (accelerate/state.py, 0.26 - 1.15), and set the device after that."""
_OTHER_BACKENDS = {"gloo", "mpi", "xccl", "hccl"}
Call = tuple[SourceFile, ast.Call]


def device_unnamed(here: NodeInspection) -> Iterator[Answer]:
    """Where the guess is not the card the rank works on, two communicators meet on one card.

    One note at most: at the first barrier, else where the group is made.
    """
    program = here.found(ProgramSource)
    if program is None:
        return
    calls: list[Call] = []
    libraries: set[str] = set()
    for file in program.files:
        parsed = parse_file(file.text)
        if isinstance(parsed, str):
            continue
        libraries |= {one.package for one in imports_of(parsed.tree, file.text)} & _LIBRARIES
        if any(word in file.text for word in _CALLED):
            calls += [(file, node) for node in walk(parsed.tree) if isinstance(node, ast.Call)]
    makers = [one for one in calls if call_name(one[1]) == "init_process_group"]
    if libraries:
        if libraries & _WITHOUT_DEVICE and not makers:
            yield from _made_by_a_library(here, program, calls)
    elif not makers or all(_backend(call) in _OTHER_BACKENDS for _, call in makers):
        return
    elif any(call_name(call) in _SETTERS for _, call in calls) or any(_has(call, "device_id") for _, call in makers):
        yield ROWS.fine("named")
    else:
        barriers = [one for one in calls if call_name(one[1]) == "barrier" and not _has(one[1], "device_ids")]
        file, call = min(barriers or makers, key=lambda one: (one[0].path != program.files[0].path, one[1].lineno))
        yield ROWS.risk("unnamed", **_at(file, call))


def _made_by_a_library(here: NodeInspection, program: ProgramSource, calls: Sequence[Call]) -> Iterator[Answer]:
    """A note where the cards are chosen by number and the program meets in a barrier of its own."""
    cards = (here.found(JobEnvironment) or JobEnvironment({})).in_force.get("CUDA_VISIBLE_DEVICES")
    numbers = cards.value.split(",") if cards is not None else []
    if cards is None or not all(one.strip().isdigit() for one in numbers):
        return
    barriers = [one for one in calls if call_name(one[1]) == "barrier" or is_main_first_name(call_name(one[1]))]
    if not barriers or [int(one) for one in numbers] == list(range(len(numbers))):
        return
    at = _at(*min(barriers, key=lambda one: (program.files.index(one[0]), one[1].lineno)))
    at["values"]["cards"] = cards.value
    at["evidence"] += (cards.evidence,)
    because = (ROWS.words("made-by-library"), ROWS.words("transport-not-program"))
    yield ROWS.risk("unnamed-by-library", **at, because=because)


def _at(file: SourceFile, call: ast.Call) -> dict[str, Any]:
    """What a finding says of its place."""
    path, line = file.path, call.lineno
    return {
        "values": {"path": path, "line": line, "call": call_name(call)},
        "where": Where(path, line, "<module>"),
        "evidence": (Evidence(Source(path, line), file.text.splitlines()[line - 1].strip()),),
    }


def _backend(call: ast.Call) -> str:
    given = next((word.value for word in call.keywords if word.arg == "backend"), call.args[0] if call.args else None)
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


def _has(call: ast.Call, name: str) -> bool:
    return any(word.arg in (name, None) for word in call.keywords)


RISKS = asked_of_a_node("program", device_unnamed)
