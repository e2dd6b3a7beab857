"""Chinese on pages: a space between Chinese and Latin, none beside a full-width mark, never two."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from unhang.findings import Cause
from unhang.knowledge.job.environment_variables import variables
from unhang.knowledge.known_incidents.incidents import incidents
from unhang.knowledge.terms import terms
from unhang.report.explain.cause_pages import cause_page
from unhang.report.explain.code_pages import DOCUMENTED_XIDS, term_page, xid_page
from unhang.report.explain.explanation_text import explanation_layout
from unhang.report.explain.page import Explanation, ExplanationPage
from unhang.report.explain.variable_pages import variable_page
from unhang.report.language import translate
from unhang.report.localizer import Localizer
from unhang.sentences import Text, say

HAN, MARK = r"[\u3400-\u9fff]", "[，。；：！？、（）“”《》]"
WRONG = re.compile(
    rf"{HAN}[A-Za-z0-9`]|[A-Za-z0-9`]{HAN}|(?<=\S)(?<!\$)  +\S|{MARK} (?!·)|(?<=\S)(?<![•·$]) {MARK}|{HAN} {HAN}"
)
PAGES: dict[str, Callable[[], Iterator[ExplanationPage | None]]] = {
    "terms": lambda: map(term_page, terms()),
    "variables": lambda: (variable_page(row.name) for row in variables()),
    "causes": lambda: (cause_page(cause.value) for cause in Cause),
    "xids": lambda: map(xid_page, DOCUMENTED_XIDS),
}
"""Pages by what they are of, made when asked for."""


def wrong(explanation: Explanation) -> list[str]:
    """Places of its text in Chinese where a space is missing or one too many; headings have two before their kind."""
    lines = explanation_layout(explanation, Localizer("zh"), 10_000).plain().splitlines()
    heads = (part for line in lines if not line.startswith(" ") for part in line.split("  "))
    told = (line.strip() for line in lines if line.startswith(" ") and not line.lstrip().startswith("$ "))
    return [
        line[max(0, found.start() - 12) : found.end() + 12]
        for line in (*heads, *told)
        for found in WRONG.finditer(line)
    ]


@pytest.mark.parametrize("kind", PAGES)
def test_pages_are_spaced_by_the_rule(kind: str) -> None:
    pages = [page for page in PAGES[kind]() if page is not None]

    assert len(pages) >= 20
    assert [place for page in pages for place in wrong(Explanation("", (page,)))] == []


def test_incidents_are_spaced_by_the_rule() -> None:
    assert wrong(Explanation("", (), incidents=tuple(incidents()))) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (say("unless `unhang bisect` shows that this machine needs {names}", names="X"), "需要 X"),
        (say("Use instead: {replacement}", replacement="A（B）"), "改用：A（B）"),
        (say("{symptom} ({where})", symptom="torch 里NCCL的值", where="x"), "torch 里NCCL的值"),
    ],
)
def test_what_is_filled_in_keeps_its_own_spaces(text: Text, said: str) -> None:
    assert said in translate(text, "zh")
