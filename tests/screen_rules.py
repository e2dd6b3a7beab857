"""What the first screen of every verdict keeps to, in every language: one claim, where and since when, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from rich.cells import cell_len

from unhang.diagnosis.jobs import JobVerdict
from unhang.facts.endings.good_endings import is_job_over
from unhang.findings import Cause, Status
from unhang.report import labels
from unhang.report.language import languages
from unhang.report.localizer import Localizer
from unhang.report.markdown import to_markdown
from unhang.report.text import UNDER, to_text
from unhang.sentences import say

HEADLINE, LINE_TWO = 80, 2
ONLY_WHILE_IT_RUNS = re.compile(r"while (?:the job|it) is stuck|py-spy|unhang attach|卡住时|趁作业")


def broken_screen_rules(job: JobVerdict) -> list[str]:
    """One sentence for each rule that a screen of ``job`` breaks."""
    return [*_advice(job), *(f"{lang}: {broken}" for lang in languages() for broken in _screen(job, lang))]


def _screen(job: JobVerdict, lang: str) -> Iterator[str]:
    localizer, verdict = Localizer(lang), job.verdict
    text = to_text(verdict, job.facts, lang=lang)
    first, _, below = text.partition("\n\n")
    head, *lines = first.split("\n")
    under = list(takewhile(lambda line: line.startswith(" " * UNDER), lines))
    certainties = {localizer.say(word) for word in labels.CERTAINTY.values()}
    if cell_len(head) > HEADLINE:
        yield f"{cell_len(head)} columns: {head}"
    if head.partition("  ")[2].lower().startswith(tuple(certainties)):
        yield f"a headline begins with how sure it is: {head}"
    if verdict.findings and any(cause.value in head for cause in Cause if "-" in cause.value):
        yield f"a headline names an id: {head}"
    if len(under) > 2 * LINE_TWO:
        yield f"{len(under)} lines under the headline: {under}"
    if verdict.status is Status.UNKNOWN and certainties & {part.strip() for line in under for part in line.split("·")}:
        yield "unknown says how sure it is"
    for known in map(labels.background_text, verdict.differential):
        said = localizer.say(known).partition(" ")[0]
        yield from (f"{said} above the background" for part in (first, _administrator(job, lang)) if said in part)
    why, _, reasons = below.partition("\n")
    if why == localizer.say(say("Why")) and reasons.partition("\n\n")[0].count("  • ") > labels.REASONS_SHOWN:
        yield "more reasons than are read"


def _administrator(job: JobVerdict, lang: str) -> str:
    page = to_markdown(job.verdict, lang=lang)
    return page.partition(f"**{Localizer(lang).say(say('Your administrator'))}**")[2].partition("\n\n**")[0]


def _advice(job: JobVerdict) -> Iterator[str]:
    """Of a job that is over, what can be done only while it runs."""
    lead = job.verdict.findings[:1]
    told = [f"{remedy.title} {remedy.change}" for finding in lead for remedy in finding.remedies]
    told += [gap.how for gap in job.verdict.not_checked]
    if is_job_over(job.facts) and job.verdict.health is None:  # what "no problem found" asks, it asks for both
        yield from (f"the job is over: {advice}" for advice in told if ONLY_WHILE_IT_RUNS.search(advice))
