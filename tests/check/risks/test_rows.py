"""Rows of risks and the judgements that ask for them: none is missing, none is left over, both languages fit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from unhang.check.risks import risk
from unhang.check.risks.risk import RiskFile, risk_file
from unhang.errors import KnowledgeError
from unhang.findings import Certainty, Grade
from unhang.knowledge.tables import list_toml_files, read_typed

RISKS = Path(risk.__file__).parent
FAMILIES = [name.removesuffix(".toml") for name in list_toml_files("risks")]
ASKS = {"risk": "risk", "fine": "fine", "gap": "gap", "could_not": "gap", "words": "words", "remedy": "remedy"}


def asked_for(family: str) -> Iterator[tuple[str, str]]:
    """(table, name) of every row that a judgement of ``family`` asks for by name."""
    for path in sorted(RISKS.parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text) if f'RiskRows("{family}")' in text else ast.Module([], [])
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func.value) == "ROWS" and node.func.attr in ASKS:
                yield from ((ASKS[node.func.attr], name) for name in _names(node.args[0], tree))


def _names(node: ast.expr, tree: ast.Module) -> Iterator[str]:
    """The name that is written out, those of both branches of ``A if … else B``, or those a variable is set to."""
    if isinstance(node, ast.IfExp):
        yield from (*_names(node.body, tree), *_names(node.orelse, tree))
    elif isinstance(node, ast.Name):
        set_to = [
            one for one in ast.walk(tree) if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == node.id
        ]
        assert set_to, f"where is {node.id} set?"
        for one in set_to:
            yield from _names(one.value, tree)
    else:
        assert isinstance(node, ast.Constant), f"the name of a row is not written out: {ast.unparse(node)}"
        yield str(node.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_row_is_asked_for_and_every_row_that_is_asked_for_is_there(family: str) -> None:
    rows = risk_file(family)
    held = {(table, name) for table in ("risk", "fine", "gap", "words") for name in getattr(rows, table)}
    held |= {("fine", name) for name in rows.detail}
    asked = set(asked_for(family))

    assert held == {one for one in asked if one[0] != "remedy"}
    remedies = {name for row in rows.risk.values() for name in row.remedies} | {n for t, n in asked if t == "remedy"}
    assert set(rows.remedy) <= remedies, "a remedy that nothing gives"


def test_a_row_that_lacks_a_language_is_named() -> None:
    with pytest.raises(KnowledgeError, match="zh"):
        read_typed("rows", RiskFile, '[fine.x]\nen = "well"')


def test_certainty_comes_from_the_grade_and_from_what_is_missing() -> None:
    rows = risk.RiskRows("limits")

    assert rows.risk("locked-memory", {"size": 64}).certainty is Certainty.LIKELY
    assert rows.risk("locked-memory", {"size": 64}, grade=Grade.BASE_RATE).certainty is Certainty.POSSIBLE
    assert rows.risk("tracing", {"scope": 1}).certainty is Certainty.CERTAIN
