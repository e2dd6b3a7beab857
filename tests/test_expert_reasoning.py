"""The habits of `docs/expert-reasoning.md`: each names cases that exist and hold something."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "expert-reasoning.md"
LINK = re.compile(r"\[([\w./-]+)\]\(\.\./tests/cases/([\w./-]+)\)")


def rows() -> list[str]:
    return [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ") and "---" not in line][1:]


def test_every_habit_names_a_case_that_exists() -> None:
    for row in rows():
        links = LINK.findall(row)
        assert links, row
        for shown, folder in links:
            assert shown == folder
            assert (ROOT / "tests" / "cases" / folder / "expected.json").is_file(), folder


def test_the_cases_of_the_page_hold_a_cause_and_more() -> None:
    for row in rows():
        for _, folder in LINK.findall(row):
            wanted = json.loads((ROOT / "tests" / "cases" / folder / "expected.json").read_text("utf-8"))
            assert "cause" in wanted or "not_cause" in wanted, folder


def test_no_case_stands_for_two_habits() -> None:
    cases = [folder for row in rows() for _, folder in LINK.findall(row)]

    assert len(cases) == len(set(cases))
