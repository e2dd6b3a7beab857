"""Every cause has its rule, its page in every language, its cases, and remedies that say what they cost."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.test_cases import KINDS, case_folders, decide
from unhang.diagnosis.detectors import ALL_DETECTORS
from unhang.findings import Cause, Remedy, Severity, Verdict
from unhang.report.explain.explanation_text import explanation_layout
from unhang.report.explain.search import explain
from unhang.report.language import languages, translate
from unhang.report.localizer import Localizer

each_cause = pytest.mark.parametrize("cause", Cause, ids=lambda cause: cause.value)


@cache
def verdict_of(folder: Path) -> Verdict:
    return decide(folder)


def cases_of(cause: Cause) -> list[Path]:
    return [folder for folder in case_folders() if folder.parent.name == cause.value]


@each_cause
def test_a_cause_has_a_rule(cause: Cause) -> None:
    assert [rule.name for rule in ALL_DETECTORS if rule.cause is cause]


@each_cause
def test_a_cause_has_a_hit_a_look_alike_and_an_unsure_case(cause: Cause) -> None:
    assert {folder.name.split("_")[0] for folder in cases_of(cause)} == set(KINDS)


@each_cause
@pytest.mark.parametrize("lang", languages())
def test_a_cause_has_a_page_in_every_language(cause: Cause, lang: str) -> None:
    page = explain(cause.value).pages[0]
    printed = explanation_layout(explain(cause.value), Localizer(lang)).plain()

    assert (page.kind, page.title) == ("cause", cause.value)
    assert len(printed.splitlines()) > 10
    assert (lang == "en") is (printed == explanation_layout(explain(cause.value), Localizer("en")).plain())


@each_cause
def test_what_is_found_comes_with_a_remedy_in_every_language(cause: Cause) -> None:
    for folder in cases_of(cause):
        for finding in verdict_of(folder).findings:
            assert finding.remedies or finding.severity is Severity.NOTE, (folder.name, finding.detector)
            for remedy in finding.remedies:
                assert unfinished(remedy) == [], (folder.name, finding.detector)


def unfinished(remedy: Remedy) -> list[str]:
    """What a remedy leaves unsaid, in any language; many have no price, and some no check that says something."""
    parts = {"title": remedy.title, "change": remedy.change}
    return [name for name, text in parts.items() for lang in languages() if not translate(text, lang).strip()]
