"""What stands above the verdicts where files are of several jobs: that it is so, and which files each is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.facts.separate_jobs import JobFiles
from unhang.knowledge.numbers import TimeForm, time_text
from unhang.report.layout.markdown_text import escape_markdown
from unhang.report.layout.text_layout import TextLayout
from unhang.report.localizer import Localizer
from unhang.sentences import Text, first_names, say

NAMED = 3
"""So many files of a job."""


def job_headings(jobs: Sequence[JobFiles], localizer: Localizer, form: str) -> Iterator[str]:
    """For all of them, then for each, ready to print; ``form``: ``text``, ``markdown`` or, in one line, ``html``."""
    differences = dict.fromkeys([say("time"), *(each for job in jobs for each in job.apart_by)])
    told = ("、" if localizer.lang == "zh" else ", ").join(map(localizer.say, differences))
    head = say("These files are of {count} jobs, which differ in {differences}", count=len(jobs), differences=told)
    yield _shown(head, localizer, form)
    for number, job in enumerate(jobs, 1):
        files = first_names([localizer.line(name) for name in job.evidence.inputs], NAMED)
        title = say("Job {number} of {count}: {files}", number=number, count=len(jobs), files=files)
        yield ("" if form == "html" else "\n") + _shown(title, localizer, form, since=_times(job))


def _times(job: JobFiles) -> str:
    """From when to when, as far as its lines tell."""
    dated = job.evidence.manifests or all(log.has_year for log in job.evidence.logs)
    shown = TimeForm.YEAR if dated else TimeForm.DAY
    times = [time_text(moment, shown) for moment in (job.begin_s, job.end_s) if moment is not None]
    return " – ".join(dict.fromkeys(times))


def _shown(text: Text, localizer: Localizer, form: str, since: str = "") -> str:
    said = localizer.line(localizer.say(text))
    if form == "html":
        return f"{said} · {since}" if since else said
    if form == "markdown":
        return f"## {escape_markdown(said)}\n\n" + (f"{since}\n\n" if since else "")
    layout = TextLayout(80)
    layout.paragraph(said, indent=0, style="bold")
    if since:
        layout.paragraph(since, indent=0)
    return layout.plain()
