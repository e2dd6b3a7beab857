"""What stands above the verdicts where files are of several jobs: that it is so, each in a line, and whose each is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.diagnosis.jobs import JobVerdict
from unhang.facts.separate_jobs import JobFiles
from unhang.knowledge.numbers import TimeForm, time_text
from unhang.report.first_lines import spoken_headline
from unhang.report.layout.markdown_text import escape_markdown
from unhang.report.layout.text_layout import TextLayout
from unhang.report.localizer import Localizer
from unhang.report.redaction.shown_paths import common_folder
from unhang.sentences import Text, first_names, say

NAMED = 3
"""So many files of a job."""


def job_headings(jobs: Sequence[JobVerdict], localizer: Localizer, form: str) -> Iterator[str]:
    """For all of them, then for each, ready to print; ``form``: ``text``, ``markdown`` or, in one line, ``html``."""
    differences = dict.fromkeys([say("time"), *(each for job in jobs for each in job.files.apart_by)])
    told = ("、" if localizer.lang == "zh" else ", ").join(map(localizer.say, differences))
    head = say("These files are of {count} jobs, which differ in {differences}", count=len(jobs), differences=told)
    folder = common_folder(name for job in jobs for name in _files(job, localizer))
    if form == "html":  # its page links to each
        yield _said(head, localizer)
    elif form == "markdown":
        rows = (f"{number}. {_row(job, folder, localizer)}\n" for number, job in enumerate(jobs, 1))
        yield f"## {escape_markdown(_said(head, localizer))}\n\n{''.join(rows)}"
    else:
        layout = TextLayout(80)
        layout.paragraph(_said(head, localizer), indent=0, style="bold")
        for number, job in enumerate(jobs, 1):
            status, claim, _ = spoken_headline(job.verdict, localizer)
            layout.paragraph(f"{status}  {claim}", lead=f"{number}. ")
            layout.parts(_whose(job, folder, localizer), indent=5)
        yield layout.plain()
    for number, job in enumerate(jobs, 1):
        files = first_names(_files(job, localizer), NAMED)
        title = say("Job {number} of {count}: {files}", number=number, count=len(jobs), files=files)
        yield _title(_said(title, localizer), _times(job.files), form)


def _row(job: JobVerdict, folder: str, localizer: Localizer) -> str:
    """Its status and headline, its files, and from when to when, in one line."""
    status, claim, _ = spoken_headline(job.verdict, localizer)
    told = " · ".join(map(escape_markdown, (claim, *_whose(job, folder, localizer))))
    return f"**{status}**{localizer.colon}{told}"


def _whose(job: JobVerdict, folder: str, localizer: Localizer) -> Iterator[str]:
    """Its files, without the folder of all, and when it ran."""
    yield first_names([name.removeprefix(folder) for name in _files(job, localizer)], NAMED)
    if times := _times(job.files):
        yield times


def _files(job: JobVerdict, localizer: Localizer) -> list[str]:
    return [localizer.line(name) for name in job.files.evidence.inputs]


def _times(job: JobFiles) -> str:
    """From when to when, as far as its lines tell."""
    dated = job.evidence.manifests or all(log.has_year for log in job.evidence.logs)
    shown = TimeForm.YEAR if dated else TimeForm.DAY
    times = [time_text(moment, shown) for moment in (job.begin_s, job.end_s) if moment is not None]
    if len(set(times)) < 2:
        return "".join(times[:1])
    return f"{times[0]} – {times[1].removeprefix(times[0].rpartition(' ')[0]).strip()}"


def _said(text: Text, localizer: Localizer) -> str:
    return localizer.line(localizer.say(text))


def _title(said: str, since: str, form: str) -> str:
    if form == "html":
        return f"{said} · {since}" if since else said
    if form == "markdown":
        return f"\n## {escape_markdown(said)}\n\n"
    layout = TextLayout(80)
    layout.paragraph(said, indent=0, style="bold")
    return "\n" + layout.plain()
