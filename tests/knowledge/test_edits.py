"""Rows of edits belong to remedies, and are filled by what those are given."""

from __future__ import annotations

import pytest

from unhang.check.risks.risk import risk_file
from unhang.knowledge.edits import edit_rows
from unhang.knowledge.remedies import remedy_rows
from unhang.knowledge.tables import list_toml_files

FAMILIES = [name.removesuffix(".toml") for name in list_toml_files("risks")]
REMEDIES = {*remedy_rows(), *(name for family in FAMILIES for name in risk_file(family).remedy)}


@pytest.mark.parametrize("name", edit_rows())
def test_it_is_the_edit_of_a_remedy(name: str) -> None:
    assert name in REMEDIES


@pytest.mark.parametrize("name", edit_rows())
def test_only_what_is_added_may_be_safe(name: str) -> None:
    assert all(row.kind in ("argument", "statement") for row in edit_rows()[name] if row.safe)
