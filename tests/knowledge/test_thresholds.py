"""Every threshold is noticed: facts on its two sides are told apart, and no longer when it is halved or doubled."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.knowledge.boundaries import causes, checks, judging, logs, machine, pace, records, risks
from tests.knowledge.boundaries.boundary import BOUNDARIES, SOURCES, place_of

from unhang.errors import KnowledgeError
from unhang.knowledge.thresholds import Threshold, all_thresholds, threshold, whole_threshold

WITH_SCENARIOS = (causes, checks, judging, logs, machine, pace, records, risks)
WITHOUT_SCENARIO: set[str] = set()
"""Thresholds that nothing shows to matter yet; this set may only shrink."""
NO_JUDGEMENT = {
    "what a format, a protocol, a kernel or a library lays down": {
        "causes/host_memory.py: (SIGKILL, SIGBUS)",
        "causes/rank_crashed.py: (SIGKILL, SIGSEGV, SIGBUS)",
        "causes/rank_crashed.py: SENT_BY_HAND",
        "causes/timeout_too_short.py: DEFAULT_LIMIT_S",
        "facts/crashes.py: _PLAIN_CODES",
        "facts/preflight/peer_ways.py: GOOD_DRIVER",
        "facts/rank_table.py: SIGTERM",
        "facts/shm_segments.py: (NO_SUCH_FILE, NOT_PERMITTED)",
        "facts/spanning_work.py: DEFAULT_LIMITS_S",
        "facts/transport_lines.py: FLUSHED",
        "facts/transport_lines.py: MEMORY_STATUS",
        "facts/transport_lines.py: RETRY_EXCEEDED",
        "rules/risks/grpo_generations.py: DEFAULT_BATCH",
        "rules/risks/limit_of_subgroups.py: DEFAULT_S",
        "rules/risks/program_single_rank.py: SHORT_S",
        "rules/risks/recorder.py: (ON_BY_DEFAULT, KNOWS_BOTH_NAMES)",
        "rules/risks/recorder.py: DEFAULT_ENTRIES",
        "rules/risks/storage_checkpoint.py: DEFAULT_LIMIT_S",
        "rules/risks/tracing.py: NOBODY",
    },
    "a unit, or names for ranks of an order": {
        "facts/activity.py: _PLAIN_WAITS",
        "facts/preflight/probe_speed.py: MB",
        "facts/rank_values.py: (BY_NAME, SURE)",
        "rules/risks/limit_far_away.py: DAY_S",
        "rules/risks/limit_far_away.py: YEAR_DAYS",
        "rules/risks/limit_not_in_force.py: (DAY_S, YEAR_S)",
    },
    "bounds work, or how much is read and shown": {
        "facts/in_force/config_tree.py: _DEEP",
        "diagnosis/differential.py: REASONS",
        "facts/activity.py: _EVIDENCE_FRAMES",
        "facts/group_table.py: _FARTHEST_LIFT",
        "facts/preflight/firewall.py: _DEPTH",
        "facts/progress_from_stacks.py: _ALIKE",
        "facts/rank_values.py: _ROUNDS",
        "facts/slipped.py: _FARTHEST",
        "facts/wait_for.py: SAMPLE",
    },
    "an example that a sentence names": {
        "rules/risks/storage_appends.py: STEP_S",
        "rules/risks/storage_files.py: MANY",
    },
    "what the counts of known incidents are kept under (knowledge/situations.py)": {
        "facts/situation.py: (FIRST_POSITIONS, EARLY_POSITIONS)",
        "facts/situation.py: INNERMOST",
        "facts/situation.py: NEAR_LINES",
    },
    "what a remedy advises": {"causes/timeout_too_short.py: _SPARE"},
}
"""Numbers that do not belong into the register, by the reason."""
ROWS = all_thresholds()
SHOWN = [row for row in ROWS if row.name in BOUNDARIES]
ROOMS = ("facts", "diagnosis", "rules", "causes")


def asked_for() -> Iterator[tuple[str, str]]:
    """(name, file) of every question to the register."""
    for room in ROOMS:
        for path in sorted((SOURCES / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("threshold", "whole_threshold"):
                    assert isinstance(node.args[0], ast.Constant)
                    yield str(node.args[0].value), path.relative_to(SOURCES).as_posix()


def numbers_in_the_sources() -> Iterator[str]:
    """``file: NAME`` of every constant of a module that is a number, or several."""
    for room in ROOMS:
        for path in sorted((SOURCES / room).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.Assign) and _is_number(node.value):
                    yield f"{path.relative_to(SOURCES).as_posix()}: {ast.unparse(node.targets[0])}"


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.Tuple | ast.Set):
        return bool(node.elts) and all(map(_is_number, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def test_a_number_outside_the_register_has_a_reason_to_be_there() -> None:
    named = {name for names in NO_JUDGEMENT.values() for name in names}
    found = {
        name for name in numbers_in_the_sources() if not re.search(r": _?(MOST|MAX)|_(SHOWN|TOLD|CHARS)$|: TOLD$", name)
    }
    assert found == named


def test_the_register_and_the_sources_agree() -> None:
    assert sorted(asked_for()) == sorted((row.name, row.file) for row in ROWS)


def test_those_without_a_scenario_are_named() -> None:
    assert {row.name for row in ROWS} - set(BOUNDARIES) == WITHOUT_SCENARIO
    assert set(BOUNDARIES) <= {row.name for row in ROWS}


def test_the_values_are_those_of_the_whole_rows() -> None:
    told = [(row.value, type(row.value)) for row in ROWS]
    assert [(value := threshold(row.name), type(value)) for row in ROWS] == told


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_says_where_its_value_comes_from(row: Threshold) -> None:
    assert re.fullmatch(r"(measured|source|chosen): \S.{10,}", row.why)
    assert row.name.startswith(Path(row.file).stem + ".")


@pytest.mark.parametrize("row", SHOWN, ids=lambda row: row.name)
def test_the_two_sides_are_told_apart_and_the_value_decides(row: Threshold, monkeypatch: pytest.MonkeyPatch) -> None:
    boundary, (module, constant) = BOUNDARIES[row.name], place_of(row)
    sides = boundary.around(row.value)
    answers = [boundary.answer(side) for side in sides]
    assert answers[0] != answers[1], f"{row.name}: {sides[0]:g} and {sides[1]:g} {row.unit} are the same"

    for changed in (row.value / 2, row.value * 2):
        monkeypatch.setattr(module, constant, type(row.value)(changed))
        assert [boundary.answer(side) for side in sides] != answers, f"{row.name}: {changed:g} {row.unit} does as well"


@pytest.mark.parametrize("ask", [threshold, whole_threshold])
def test_an_unknown_name_is_said(ask: Callable[[str], float]) -> None:
    with pytest.raises(KnowledgeError, match=r"no arrivals\.nothing"):
        ask("arrivals.nothing")


def test_what_counts_is_whole() -> None:
    with pytest.raises(KnowledgeError, match="whole"):
        whole_threshold("arrivals.always")
