"""Every threshold is noticed: facts on its two sides are told apart, and no longer when it is halved or doubled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.knowledge.boundaries import checks, judging, logs, machine, pace, records, risks
from tests.knowledge.boundaries.boundary import BOUNDARIES, SOURCES, place_of

from unhang.errors import KnowledgeError
from unhang.knowledge.thresholds import Threshold, all_thresholds, threshold, whole_threshold

WITH_SCENARIOS = (checks, judging, logs, machine, pace, records, risks)
WITHOUT_SCENARIO: set[str] = set()
"""Thresholds that nothing shows to matter yet; this set may only shrink."""
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


def test_the_register_and_the_sources_agree() -> None:
    assert sorted(asked_for()) == sorted((row.name, row.file) for row in ROWS)


def test_those_without_a_scenario_are_named() -> None:
    assert {row.name for row in ROWS} - set(BOUNDARIES) == WITHOUT_SCENARIO
    assert set(BOUNDARIES) <= {row.name for row in ROWS}


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
def test_an_unknown_name_is_said(ask: object) -> None:
    with pytest.raises(KnowledgeError, match=r"no arrivals\.nothing"):
        ask("arrivals.nothing")  # type: ignore[operator]


def test_what_counts_is_whole() -> None:
    with pytest.raises(KnowledgeError, match="whole"):
        whole_threshold("arrivals.always")
