"""The catalogue and the case files keep their promises to each other and to the rules."""

from __future__ import annotations

import io
import tokenize

import pytest

from unhang.errors import UsageError
from unhang.findings import Cause
from unhang_lab.expectation import lines_with
from unhang_lab.lab_case import CASES, CASES_FOLDER, LabCase, find_case

IDS = [case.name for case in CASES]
SCREEN_LINES = 64


def test_every_case_file_is_in_the_catalogue() -> None:
    assert {path.name for path in CASES_FOLDER.glob("*.py")} == {case.script for case in CASES}


def test_names_are_not_used_twice() -> None:
    assert len(set(IDS)) == len(IDS)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_case_fits_on_one_screen(case: LabCase) -> None:
    assert len(case.path.read_text().splitlines()) <= SCREEN_LINES


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_script_says_nothing_about_its_fault(case: LabCase) -> None:
    """Neither comments nor the words of causes and cases: rules must see what a user's own script shows."""
    text = case.path.read_text()
    comments = [
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    ]

    assert comments == []
    for word in (
        *(cause.value for cause in Cause if cause is not Cause.UNKNOWN),
        "unhang",
        "hang",
        "deadlock",
        "fault",
    ):
        assert word not in text.lower()


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_lines_a_case_names_exist(case: LabCase) -> None:
    expected = case.expected
    for code in (*expected.where, *expected.waiter):
        assert lines_with(case.path, code), code
    for name in expected.where_functions:
        assert lines_with(case.path, f"def {name}(")
    if case.injection is None and expected.cause is not None:
        assert case.fault
        assert lines_with(case.path, case.fault)


def test_an_unknown_name_is_answered_with_what_to_type() -> None:
    with pytest.raises(UsageError) as raised:
        find_case("no-such-case")

    assert raised.value.next_step == "unhang lab list"
