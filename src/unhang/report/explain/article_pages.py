"""An article as pages: first what it is about and what its advice is worth in all, then each piece in its order."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce

from unhang.findings import Cause
from unhang.report.explain.article_advice import Advice, Worth
from unhang.report.explain.article_judgement import causes_remedied, judged_for
from unhang.report.explain.article_sentences import Sentence, says
from unhang.report.explain.page import Explanation, ExplanationPage, PageLine
from unhang.report.explain.term_search import asking_words, share_named, terms_within
from unhang.sentences import Text, say

CAUSES_SHOWN, QUOTE, _SHORTEST_TITLE, _TITLES = 3, 160, 8, 8
LEAST_NAMED = 0.3
"""Of the weight of a sentence: one that is mostly about something else tells of a cause that we do not know."""
_FEWEST_REMEDIES = 2
"""Different pieces of advice for one cause that make it what the article is about."""
_COUNTS: dict[Worth, Text] = {
    "right": say("{count} {count:helps|help}"),
    "already": say("{count} {count:is|are} so already"),
    "depends": say("{count} {count:depends|depend} on the job"),
    "no-effect": say("{count} {count:has|have} no effect"),
    "costs": say("{count} {count:has|have} a price"),
    "harmful": say("{count} {count:is|are} harmful"),
    "unknown": say("{count} not judged"),
}


def explained_article(told: Sequence[Sentence], advice: Sequence[Advice], command: Sequence[str]) -> Explanation:
    """The pages of an article with ``advice``; ``command``: of the job it is judged for as well."""
    title, named = _title(told), named_causes(told)
    advice = judged_for(advice, list(named))
    counted = Counter(one.worth for one in advice)
    parts = (Text(text.template, {"count": counted[worth]}) for worth, text in _COUNTS.items() if counted[worth])
    worths = reduce(lambda one, more: say("{one}, {more}", one=one, more=more), parts)
    summary = say("{count} pieces of advice: {worths}.", count=len(advice), worths=worths)
    for_whom = say("Judged for this machine and this job.")
    if not command:
        for_whom = say("Judged for this machine; for a job too: unhang explain FILE -- COMMAND")
    head = ExplanationPage(
        "article", _quote(title), (summary, for_whom), details=(*_symptom(told), *(_causes(named) or _remedied(advice)))
    )
    return Explanation(title, (head, *(_page(one, shlex.join(command)) for one in advice)))


def _page(one: Advice, command: str) -> ExplanationPage:
    because: tuple[PageLine, ...] = one.because
    if one.against:
        because = (say("The article advises against it."), *because)
    if one.worth == "unknown":
        because = (say("unhang knows nothing of it."),)
    elif one.worth == "already":
        because = because or (say("It is set or installed like this here."),)
    title = f"{one.sentence.line}: {_quote(one.part or one.sentence.text)}"
    settle = one.settle.replace("COMMAND", command or "COMMAND")
    return ExplanationPage(f"advice: {one.worth}", title, because, look=(settle,) if settle else ())


def _quote(text: str) -> str:
    return text if len(text) <= QUOTE else f"{text[: QUOTE - 1]}…"


def _symptom(told: Sequence[Sentence]) -> list[tuple[Text, PageLine]]:
    symptoms = asking_words()["symptoms"]
    for one in told:
        titles = {term.names[0] for term in terms_within(one.text).values()}
        for title in (title for title in symptoms if title in titles):
            return [(say("Symptom"), say("{symptom} (“{quote}”)", symptom=title, quote=_quote(one.text)))]
    return []


def _title(told: Sequence[Sentence]) -> str:
    """The first line that names a symptom; a saved page begins with the names of its site."""
    long = [one.text for one in told[:_TITLES] if len(one.text) >= _SHORTEST_TITLE] or [told[0].text]
    symptoms = set(asking_words()["symptoms"])
    return next((text for text in long if symptoms & {one.names[0] for one in terms_within(text).values()}), long[0])


def named_causes(told: Sequence[Sentence]) -> dict[tuple[Cause, ...], Sentence]:
    """The sentences of its part on causes, or where it has none those that say why, by the causes that fit each, the
    first of them most."""
    told_why = [one for one in told if says("because", one.text) and one.part not in ("advice", "described")]
    named: dict[tuple[Cause, ...], Sentence] = {}
    for one in [one for one in told if one.part == "causes" and (one.listed or one in told_why)] or told_why:
        label, colon, _ = one.text.replace("：", ":").partition(":")
        if causes := (_causes_of(label) if colon else ()) or _causes_of(one.text):
            named.setdefault(causes, one)
    return named


def _causes(named: Mapping[tuple[Cause, ...], Sentence]) -> list[tuple[Text, PageLine]]:
    first: dict[str, Sentence] = {}
    for causes, one in named.items():
        first.setdefault(causes[0].value, one)
    shown = list(first.items())[:CAUSES_SHOWN]
    label = say("Cause it names")
    return [(label, say("{symptom} (“{quote}”)", symptom=cause, quote=_quote(one.text))) for cause, one in shown]


def _causes_of(text: str) -> tuple[Cause, ...]:
    """The causes that all terms in ``text`` have; none where they share none or are little of it."""
    if share_named(text) < LEAST_NAMED:
        return ()
    held = [term.causes for term in terms_within(text).values() if term.causes and not term.alone]
    shared = [cause for cause in held[0] if all(cause in one for one in held)] if held else []
    return tuple(Cause(cause) for cause in shared if cause != "unknown")


def _remedied(advice: Sequence[Advice]) -> list[tuple[Text, PageLine]]:
    """The cause that most of its advice is for, where it names none in words."""
    helps = {one.row.id: one for one in reversed(advice) if one.row is not None and not one.against}
    causes = {name: causes_remedied(one) for name, one in helps.items()}
    held = Counter(cause for found in causes.values() for cause in found).most_common(2)
    if not held or held[0][1] < _FEWEST_REMEDIES or (len(held) > 1 and held[1][1] == held[0][1]):
        return []
    first = next(one for name, one in reversed(helps.items()) if held[0][0] in causes[name])
    quote = _quote(first.sentence.text)
    return [(say("Its advice is for"), say("{symptom} (“{quote}”)", symptom=held[0][0].value, quote=quote))]
