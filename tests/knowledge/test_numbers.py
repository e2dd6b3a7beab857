"""Text becomes a number in one place, and only one that can be meant."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from unhang.knowledge import numbers

SOURCE = Path(__file__).resolve().parents[2] / "src" / "unhang"
ROOMS = (
    *("evidence", "facts", "program/syntax", "program/rank_dependence", "program/data_flow", "program/paths"),
    *("program/patterns", "causes", "check/risks", "diagnosis", "report/html"),
)
IMPOSSIBLE = ("", "x", "9" * 400, "9" * 5000, "-" + "9" * 30, "0x10", "²", "1e5")


@pytest.mark.parametrize("text", IMPOSSIBLE)
def test_what_is_no_integer_is_none(text: str) -> None:
    assert numbers.integer(text) is None
    assert numbers.rank(text) is None
    assert numbers.exit_code(text) is None


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "9" * 400, "1.2.3", ""])
def test_what_is_no_finite_number_is_none(text: str) -> None:
    assert numbers.decimal(text) is None
    assert numbers.duration_s(text) is None


@pytest.mark.parametrize("value", ["auto", "", "9" * 400, 10**400, float("inf"), float("nan"), True, None, [1], {}])
def test_a_value_of_a_file_that_is_no_finite_number_is_none(value: object) -> None:
    assert numbers.finite_number(value) is None


def test_values_of_files_and_words_of_commands_are_numbers() -> None:
    assert [numbers.finite_number(value) for value in (3, 0.5, "12", "3e-4", -1)] == [3.0, 0.5, 12.0, 3e-4, -1.0]


def test_ranges() -> None:
    assert numbers.integer("1,200") == 1200
    assert numbers.integer(str(numbers.MAX_INTEGER)) == numbers.MAX_INTEGER
    assert numbers.integer(str(numbers.MAX_INTEGER + 1)) is None
    assert numbers.rank("0") == 0
    assert numbers.rank("-1") is None
    assert numbers.rank(str(numbers.MAX_RANKS)) is None
    assert list(numbers.ranks_up_to("3", "5")) == [3, 4, 5]
    assert not numbers.ranks_up_to("3", "9" * 30)
    assert numbers.exit_code("-9") == -9
    assert numbers.exit_code("4294967295") is not None
    assert numbers.exit_code("4294967296") is None
    assert numbers.duration_s("600000", 0.001) == 600
    assert numbers.duration_s("-1") is None
    assert numbers.duration_s("3155760001") is None
    assert numbers.utc_time(1e18) is None
    assert numbers.utc_time(0.0) is not None


def conversions(path: Path) -> list[str]:
    """Calls of ``int`` or ``float`` on what a regular expression found, and dates made from numbers."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        of_a_match = isinstance(node.args[0], ast.Subscript) and "found" in ast.dump(node.args[0].value)
        if (name in ("int", "float") and of_a_match) or name in ("fromtimestamp", "utcfromtimestamp"):
            found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    return found


def test_no_room_makes_numbers_of_matches_or_dates_itself() -> None:
    bounded = {"evidence/logs/lines/timestamps.py"}  # their patterns hold two, four or nine digits
    paths = [path for room in ROOMS for path in sorted((SOURCE / room).rglob("*.py"))]

    assert [place for path in paths for place in conversions(path) if place.rpartition(":")[0] not in bounded] == []
