"""What words mean: the pages that explain them, the nearest page where none does, or what is spelt alike."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from unhang.findings import Cause
from unhang.knowledge.job.environment_variables import similar_names, variables
from unhang.knowledge.terms import normalize_term, terms_by_name
from unhang.report.explain.cause_pages import cause_page
from unhang.report.explain.code_pages import code_pages, term_page
from unhang.report.explain.message_pages import message_pages, pages_with_phrase
from unhang.report.explain.page import Explanation, ExplanationPage
from unhang.report.explain.term_search import find_terms
from unhang.report.explain.variable_pages import variable_page
from unhang.report.explain.version_pages import limit_page, version_page

if TYPE_CHECKING:
    from unhang.knowledge.known_incidents.incidents import Incident

ASKED_CHARS = 200_000
"""Of a paste no more is looked at; whole logs are for ``unhang diagnose``."""
PHRASE_CHARS = 80
"""A longer text is no question about a variable that it names."""
WITHIN_SHOWN, SIMILAR_SHOWN = 2, 5
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+")


def explain(text: str) -> Explanation:
    """The pages for ``text``: a cause, a variable, a code, a word, or a message pasted whole."""
    asked = text[:ASKED_CHARS].strip()
    if pages := _exact_pages(asked) or message_pages(asked) or _pages_of_variables(asked):
        return Explanation(asked, tuple(pages), incidents=_known_incidents(asked))
    found = find_terms(asked)
    pages = [term_page(term) for term in found.terms][:WITHIN_SHOWN]
    if found.fit or (held := pages_with_phrase(asked)):
        return Explanation(asked, tuple(pages if found.fit else held), incidents=_known_incidents(asked))
    if pages:
        return Explanation(asked, tuple(pages), nearest=True)
    spelt = similar(asked)
    return Explanation(asked, (), spelt or found.alike, () if spelt else _known_incidents(asked))


def _known_incidents(asked: str) -> tuple[Incident, ...]:
    """Of the cause asked for; else those with all its words, which are English; else those that look like it."""
    from unhang.knowledge.known_incidents.incidents import StallSituation, incidents
    from unhang.knowledge.known_incidents.similar_incidents import MAX_SHOWN, incidents_with_words, similar_incidents

    of_cause = [row for row in incidents() if row.cause.value == normalize_term(asked)]
    newest = sorted(of_cause, key=lambda row: (-row.year, row.id))[:MAX_SHOWN]
    worded = incidents_with_words(asked) if asked.isascii() else []
    return tuple(newest or worded or similar_incidents(StallSituation(), asked))


def _exact_pages(asked: str) -> list[ExplanationPage]:
    for page_of in (cause_page, variable_page, version_page, limit_page):
        if (page := page_of(asked)) is not None:
            return [page]
    return code_pages(asked)


def _pages_of_variables(asked: str) -> list[ExplanationPage]:
    """Of the variables that a phrase names: ``raise NCCL_TIMEOUT``."""
    named = dict.fromkeys(_VARIABLE.findall(asked)) if len(asked) <= PHRASE_CHARS else ()
    return [page for name in named if (page := variable_page(name)) is not None][:WITHIN_SHOWN]


def similar(asked: str) -> tuple[str, ...]:
    """Known words that look like ``asked``, the most similar first; none for a long paste."""
    word = normalize_term(asked)
    if not word or len(word) > 64:
        return ()
    near = difflib.get_close_matches(
        word, [*terms_by_name(), *(one.value for one in Cause)], n=SIMILAR_SHOWN, cutoff=0.8
    )
    names = similar_names(word) if len(word) >= 4 else ()
    begun = tuple(row.name for row in variables() if len(word) >= 6 and row.name.casefold().startswith(word))
    return tuple(dict.fromkeys((*names, *begun[:3], *near)))[:SIMILAR_SHOWN]
