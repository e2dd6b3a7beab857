"""The list of rules equals the folder, and each rule is a page."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from unhang import causes, diagnosis
from unhang.causes.detector import Detector
from unhang.diagnosis.detectors import ALL_DETECTORS
from unhang.findings import Cause, NotChecked, RuledOut

FOLDER = Path(causes.__file__).parent
PARTS = {"unknown_printed", "unknown_stated"}
"""Of a cause that is too long for one file."""
HEADINGS = ("What happens:", "Why it hangs:", "Example:", "Fix:", "Certain when:", "Possible when:")

each_rule = pytest.mark.parametrize("rule", ALL_DETECTORS, ids=lambda rule: rule.name)


def test_the_list_equals_the_folder() -> None:
    files = sorted(
        path.stem for path in FOLDER.glob("*/*.py") if path.name != "__init__.py" and path.parent.name != "wording"
    )

    assert sorted({rule.cause.value.replace("-", "_") for rule in ALL_DETECTORS} | PARTS) == files
    assert [rule.name for rule in ALL_DETECTORS] == sorted(rule.name for rule in ALL_DETECTORS)


@each_rule
def test_a_rule_is_named_for_its_cause(rule: Detector) -> None:
    assert isinstance(rule.cause, Cause)
    assert rule.name.startswith(rule.cause.value.replace("-", "_"))


@each_rule
def test_a_page_has_its_headings_once_and_in_order(rule: Detector) -> None:
    places = [rule.page.find(heading) for heading in HEADINGS]

    assert -1 not in places, [heading for heading in HEADINGS if heading not in rule.page]
    assert places == sorted(places)
    assert all(rule.page.count(heading) == 1 for heading in HEADINGS)


@each_rule
def test_a_page_opens_with_the_cause_and_one_sentence(rule: Detector) -> None:
    first = rule.page.strip().split("\n\n")[0]

    assert first.startswith(f"{rule.cause.value}: ")
    assert len(first) > len(rule.cause.value) + 20


@each_rule
def test_a_rule_on_no_evidence_says_nothing(rule: Detector) -> None:
    from unhang.evidence.evidence_set import EvidenceSet
    from unhang.facts.build import build_facts

    answers = list(rule.check(build_facts(EvidenceSet())))

    assert all(isinstance(answer, NotChecked | RuledOut) for answer in answers)


def _reads(path: Path, name: str) -> list[int]:
    """Lines of ``path`` that read an attribute called ``name``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == name]


@each_rule
def test_a_rule_makes_signals_and_no_certainty_of_its_own(rule: Detector) -> None:
    tree = ast.parse(next(FOLDER.glob(f"*/{rule.cause.value.replace('-', '_')}.py")).read_text(encoding="utf-8"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    named = {kw.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for kw in node.keywords}

    assert not called & {"Finding", "finding"}
    assert "certainty" not in named


def test_nothing_is_decided_by_which_rule_found_it() -> None:
    folder = Path(diagnosis.__file__).parent

    assert {path.name: lines for path in sorted(folder.rglob("*.py")) if (lines := _reads(path, "rule"))} == {}
