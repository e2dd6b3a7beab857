"""What is to be thought of causes and grades is a table that is whole, agrees with itself, and is asked for."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

from unhang import diagnosis
from unhang.errors import KnowledgeError
from unhang.findings import Cause, Grade
from unhang.knowledge.reasoning_rows import CauseRow, Trait, When, cause_rows, causes_that, grade_rows, strength
from unhang.knowledge.tables import read_typed

DIAGNOSIS = "".join(path.read_text("utf-8") for path in Path(diagnosis.__file__).parent.glob("*.py"))


def test_no_grade_makes_more_certain_than_a_stronger_one() -> None:
    rows = list(grade_rows().values())

    assert [row.whole.order for row in rows] == sorted((row.whole.order for row in rows), reverse=True)
    assert [row.not_whole.order for row in rows] == sorted((row.not_whole.order for row in rows), reverse=True)
    assert [strength(grade) for grade in grade_rows()] == list(range(len(Grade), 0, -1))


def test_every_cause_has_its_place_in_the_order() -> None:
    assert set(cause_rows()) == set(Cause)
    assert list(cause_rows())[-1] is Cause.UNKNOWN


@pytest.mark.parametrize("trait", get_args(Trait))
def test_a_trait_is_had_and_asked_for(trait: Trait) -> None:
    assert causes_that(trait)
    assert f'"{trait}"' in DIAGNOSIS


@pytest.mark.parametrize("when", get_args(When))
def test_a_way_to_follow_is_used_and_asked_for(when: When) -> None:
    assert any(when in row.explains for row in cause_rows().values())
    assert f'"{when}"' in DIAGNOSIS


@pytest.mark.parametrize("path", sorted(Path(diagnosis.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_no_pass_has_a_list_of_causes_of_its_own(path: Path) -> None:
    lists = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, (ast.Tuple, ast.Set)))

    assert [
        node.lineno for node in lists if sum(ast.unparse(part).startswith("Cause.") for part in node.elts) > 1
    ] == []


def test_nothing_explains_itself() -> None:
    assert [cause for cause, row in cause_rows().items() if cause in set().union(*row.explains.values())] == []


@pytest.mark.parametrize(
    "row", ['traits = ["works"]', "explains.sometimes = []", 'explains.same-ranks = ["hunger"]', 'settle = "it"']
)
def test_a_row_that_holds_what_nobody_knows_is_refused(row: str) -> None:
    with pytest.raises(KnowledgeError, match=r"causes\.toml"):
        read_typed("causes.toml", dict[Cause, CauseRow], f"[unknown]\n{row}")
