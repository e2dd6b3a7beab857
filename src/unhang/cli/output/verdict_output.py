"""Where the verdict goes and how it looks there. Standard output gets the answer and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unhang.cli.output.answer import write_error
from unhang.cli.output.notes import note
from unhang.facts.model import Facts
from unhang.findings import Severity, Status, Verdict
from unhang.report.redaction.redact import Redactor

if TYPE_CHECKING:
    from unhang.diagnosis.jobs import JobVerdict
    from unhang.report.localizer import Localizer


def exit_code(verdict: Verdict) -> int:
    """0 shown to be well (notes alone are nothing wrong), 1 something stops or slows the job, 3 undecided."""
    if any(finding.severity in (Severity.STOPS, Severity.SLOWS) for finding in verdict.findings):
        return 1
    return {Status.HEALTHY: 0, Status.UNKNOWN: 3}.get(verdict.status, 1)


@dataclass(frozen=True, slots=True)
class VerdictOutput:
    """How the user wants a verdict."""

    form: str
    lang: str
    redact: bool

    @classmethod
    def chosen(cls, form: str, *, lang: str | None, redact: bool) -> VerdictOutput:
        """The output the options ask for. JSON stays English unless a language is named."""
        from unhang.report.language import resolve_language

        return cls(form, "en" if form == "json" and not lang else resolve_language(lang), redact)

    def give(self, verdict: Verdict, facts: Facts, *, jobs: Sequence[JobVerdict] = ()) -> None:
        """Print the verdict. ``jobs``: where files are of several, each with its verdict, this one first."""
        if logging := sys.modules.get("logging"):  # loaded where somebody asked for more than the answer
            for finding in verdict.findings:
                told = f"{finding.cause.value}, {finding.certainty.value}, grade {finding.grade!r}"
                logging.getLogger(__name__).debug("rule %s: %s", finding.detector, told)
        if self.form != "text":
            sys.stdout.write(self._text(verdict, facts, jobs))
        elif jobs:
            for head, job in self._one_by_one(jobs):
                sys.stdout.write(head)
                self._print(job.verdict, job.facts)
        else:
            self._print(verdict, facts)

    def write_html(self, path: Path, verdict: Verdict, facts: Facts, jobs: Sequence[JobVerdict] = ()) -> None:
        """Write the self-contained report to ``path``."""
        from unhang.report.html import page

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            page.write_html(verdict, facts, path, lang=self.lang, redactor=self.redactor(verdict, facts), jobs=jobs)
        except OSError as error:
            raise write_error(path, error) from error
        note(f"HTML report written to {path}", lead="")

    def _print(self, verdict: Verdict, facts: Facts) -> None:
        from unhang.report.text import print_text

        print_text(verdict, facts, lang=self.lang, file=sys.stdout, redactor=self.redactor(verdict, facts))

    def _one_by_one(self, jobs: Sequence[JobVerdict]) -> Iterator[tuple[str, JobVerdict]]:
        """Each with what stands above it."""
        from unhang.report.job_headings import job_headings
        from unhang.report.localizer import Localizer

        redactor = self.redactor(jobs[0].verdict, jobs[0].facts)
        for job in jobs[1:]:
            redactor.learn_from(job.verdict, job.facts)
        head, *titles = job_headings(jobs, Localizer(self.lang, redactor), self.form)
        return zip((head + titles[0], *titles[1:]), jobs, strict=True)

    def _text(self, verdict: Verdict, facts: Facts, jobs: Sequence[JobVerdict] = ()) -> str:
        if self.form == "json":
            from unhang.report.verdict_document import to_json

            told = [(job.verdict, job.files.evidence.inputs) for job in jobs]
            return to_json(verdict, lang=self.lang, redactor=self.redactor(verdict, facts), jobs=told)
        if jobs and self.form != "html":
            return "".join(head + self._text(job.verdict, job.facts) for head, job in self._one_by_one(jobs))
        if self.form == "markdown":
            from unhang.report.markdown import to_markdown

            return to_markdown(verdict, facts, lang=self.lang, redactor=self.redactor(verdict, facts))
        if self.form == "html":
            from unhang.report.html.page import to_html

            return to_html(verdict, facts, lang=self.lang, redactor=self.redactor(verdict, facts), jobs=jobs)
        from unhang.report.text import to_text

        return to_text(verdict, facts, lang=self.lang, redactor=self.redactor(verdict, facts))

    def localizer(self, verdict: Verdict, facts: Facts | None = None) -> Localizer:
        """How a further text about them is said."""
        from unhang.report.localizer import Localizer

        return Localizer(self.lang, self.redactor(verdict, facts))

    def redactor(self, verdict: Verdict, facts: Facts | None) -> Redactor:
        """One that knows every name of them."""
        redactor = Redactor(share=self.redact)
        redactor.learn_from(verdict, facts)
        return redactor
