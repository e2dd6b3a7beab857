"""Every threshold is noticed: facts on its two sides are told apart, and no longer when it is halved or doubled."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.knowledge.boundaries import causes, checks, judging, logs, machine, pace, records, risks
from tests.knowledge.boundaries.boundary import BOUNDARIES, SOURCES, Threshold, all_thresholds, place_of
from unhang.errors import KnowledgeError
from unhang.knowledge.thresholds import threshold, whole_threshold

WITH_SCENARIOS = (causes, checks, judging, logs, machine, pace, records, risks)
WITHOUT_SCENARIO: set[str] = set()
"""Thresholds that nothing shows to matter yet; this set may only shrink."""
NO_JUDGEMENT = {
    "what a format, a protocol, a kernel or a library lays down": {
        "causes/machine/host_memory.py: (SIGKILL, SIGBUS)",
        "causes/processes/rank_crashed.py: (SIGKILL, SIGSEGV, SIGBUS)",
        "causes/processes/rank_crashed.py: SENT_BY_HAND",
        "causes/work/timeout_too_short.py: DEFAULT_LIMIT_S",
        "facts/endings/crashes.py: _PLAIN_CODES",
        "facts/endings/crashes.py: _LINES_BELOW",
        "facts/machine/ambiguous_errors.py: _LINES_OF_ONE_ERROR",
        "check/devices/chosen_cards.py: GOOD_DRIVER",
        "facts/rank_table.py: SIGTERM",
        "facts/machine/nccl_reports.py: (NO_SUCH_FILE, NOT_PERMITTED)",
        "facts/laggard/work_in_lines.py: DEFAULT_LIMITS_S",
        "facts/machine/transport_errors.py: FLUSHED",
        "facts/machine/transport_errors.py: MEMORY_STATUS",
        "facts/machine/transport_errors.py: RETRY_EXCEEDED",
        "check/risks/program/configuration.py: DEFAULT_BATCH",
        "check/risks/program/configuration.py: DEFAULT_LIMIT_S",
        "check/risks/timers.py: GROUP_DEFAULT_S",
        "program/settings/process_group_timeouts.py: (NCCL_DEFAULT_S, OTHER_DEFAULT_S)",
        "check/risks/program/work.py: SHORT_S",
        "check/risks/timers.py: (ON_BY_DEFAULT, KNOWS_BOTH_NAMES, DUMPS_BY_DEFAULT)",
        "check/risks/timers.py: DEFAULT_ENTRIES",
        "check/risks/storage.py: DEFAULT_LIMIT_S",
        "check/risks/limits.py: NOBODY",
        "facts/separate_jobs.py: ZONES_S",
    },
    "a unit, or names for ranks of an order": {
        "facts/stacks/activity.py: _PLAIN_WAITS",
        "check/probe_results/speeds.py: MB",
        "check/devices/memory_need.py: GIB",
        "program/rank_dependence/rank_values.py: (BY_NAME, SURE)",
        "check/risks/timers.py: (DAY_S, YEAR_S)",
        "facts/separate_jobs.py: YEAR_S",
    },
    "bounds work, or how much is read and shown": {
        "program/settings/branch_conditions.py: _DEEP",
        "diagnosis/differential.py: REASONS",
        "facts/stacks/activity.py: _EVIDENCE_FRAMES",
        "facts/alignment/group_table.py: _FARTHEST_LIFT",
        "check/network/firewall.py: _DEPTH",
        "facts/waiting/progress_from_stacks.py: _ALIKE",
        "facts/alignment/position_calls.py: _FARTHEST",
        "facts/waiting/wait_graph.py: SAMPLE",
        "facts/endings/own_last_lines.py: _LAST",
    },
    "an example that a sentence names": {
        "check/risks/storage.py: STEP_S",
        "check/risks/storage.py: MANY_FILES",
    },
    "what the counts of known incidents are kept under (knowledge/known_incidents/incident_counts.py)": {
        "facts/incident_features.py: (FIRST_POSITIONS, EARLY_POSITIONS)",
        "facts/incident_features.py: INNERMOST",
        "facts/incident_features.py: NEAR_LINES",
    },
    "what a remedy advises": {"causes/work/timeout_too_short.py: _SPARE"},
}
"""Numbers that do not belong into the register, by the reason."""
LOOKS = re.compile(
    r".*/collect_|check/(?:all_inspections|probe/|bisect/|storage/storage_trial|network/rendezvous_e)|program/(?:launch|imports|settings/(?:c|h).*_files)"
)
"""Files that only look, and the probe and the search for settings: their limits protect."""
ROWS = all_thresholds()
SHOWN = [row for row in ROWS if row.name in BOUNDARIES]
ROOMS = ("facts", "diagnosis", "causes", "program", "check")


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
                if LOOKS.match(path.relative_to(SOURCES).as_posix()):
                    continue
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
    found = {name for name in numbers_in_the_sources() if not re.search(r": _?MAX|_(SHOWN|TOLD|CHARS)$|: TOLD$", name)}
    assert found == named


def test_the_register_and_the_sources_agree() -> None:
    assert sorted(asked_for()) == sorted((row.name, row.file) for row in ROWS)


def test_those_without_a_scenario_are_named() -> None:
    assert {row.name for row in ROWS} - set(BOUNDARIES) == WITHOUT_SCENARIO, "a scenario in tests/knowledge/boundaries/"
    assert set(BOUNDARIES) <= {row.name for row in ROWS}


def test_the_values_are_those_of_the_whole_rows() -> None:
    told = [(row.value, type(row.value)) for row in ROWS]
    assert [(value := threshold(row.name), type(value)) for row in ROWS] == told


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_says_where_its_value_comes_from(row: Threshold) -> None:
    assert re.fullmatch(r"(measured|source|chosen): \S.{10,}", row.why), (
        "begin `why` with measured:, source: or chosen:"
    )
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
        whole_threshold("straggler.always")
