"""Limits a program sets in its own source: ``init_process_group(timeout=timedelta(minutes=30))`` and its kin."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from datetime import timedelta

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.program.program_source import ProcessGroupTimeout
from unhang.program.settings.branch_conditions import TestEvaluation
from unhang.program.settings.program_settings import ProgramSettings
from unhang.program.syntax.syntax_tree import ParsedFile, call_name, own_nodes, parsed_files, walk

FIRST_GROUP_CALLS = {"init_process_group": 2, "InitProcessGroupKwargs": 2, "init_distributed": 4, "PartialState": None}
GROUP_CALLS = {"new_group": 1, "init_device_mesh": None, "split_group": 2, "new_subgroups": 2}
"""Calls, and the place of the timeout among their arguments where it may stand without its name."""
NCCL_DEFAULT_S, OTHER_DEFAULT_S = 600.0, 1800.0
TRAINER_ARGUMENT = "ddp_timeout"
"""The Trainer's, which a program may give to its arguments itself."""


def find_group_timeouts(files: Iterable[SourceFile], settings: ProgramSettings) -> Iterator[ProcessGroupTimeout]:
    """Calls that make process groups, and arguments that hold the Trainer's limit; none where a file is no Python."""
    for file, program in parsed_files(files):
        yield from sorted(_of_file(file, program, settings), key=lambda one: one.source.line or 0)


def _of_file(file: SourceFile, program: ParsedFile, settings: ProgramSettings) -> Iterator[ProcessGroupTimeout]:
    lines = file.text.splitlines()
    guarded = {id(inner) for outer in program.nodes if _asks_for_a_group(outer) for inner in walk(outer)}
    for scope, outer in program.owners.items():
        for node in own_nodes(scope):
            if not isinstance(node, ast.Call) or (name := _kind(node)) is None:
                continue
            given = _given(node, name)
            there = TestEvaluation(settings, file.path, (*outer, scope))
            yield ProcessGroupTimeout(
                name,
                Source(file.path, node.lineno),
                lines[node.lineno - 1].strip(),
                "" if given is None else ast.unparse(given),
                None if given is None else _seconds(there.value(given)),
                id(node) in guarded,
                _default_s(node, there) if name == "init_process_group" else NCCL_DEFAULT_S,
            )


def _default_s(call: ast.Call, there: TestEvaluation) -> float:
    """Of torch: the shorter one for the backend ``nccl`` alone, the other also where none is named."""
    backend = [*(word.value for word in call.keywords if word.arg == "backend"), *call.args[:1]]
    value = there.value(backend[0]) if backend else ""
    return OTHER_DEFAULT_S if isinstance(value, str) and value != "nccl" else NCCL_DEFAULT_S


def _kind(call: ast.Call) -> str | None:
    name = call_name(call)
    if name in FIRST_GROUP_CALLS or name in GROUP_CALLS:
        return name
    return TRAINER_ARGUMENT if any(word.arg == TRAINER_ARGUMENT for word in call.keywords) else None


def _given(call: ast.Call, name: str) -> ast.expr | None:
    wanted = TRAINER_ARGUMENT if name == TRAINER_ARGUMENT else "timeout"
    at = {**FIRST_GROUP_CALLS, **GROUP_CALLS}.get(name)
    by_place = call.args[at] if at is not None and len(call.args) > at else None
    unpacked = next((word.value for word in call.keywords if word.arg is None), None)
    return next((word.value for word in call.keywords if word.arg == wanted), by_place or unpacked)


def _asks_for_a_group(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(
        getattr(inner, "attr", getattr(inner, "id", "")) == "is_initialized" for inner in walk(node.test)
    )


def _seconds(value: object) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
