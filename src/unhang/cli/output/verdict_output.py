"""Where the verdict goes and how it looks there. Standard output gets the answer and nothing else."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from unhang.errors import UsageError
from unhang.facts.model import Facts
from unhang.findings import Severity, Status, Verdict
from unhang.report.layout.terminal import underlying_stream
from unhang.report.redaction.redact import Redactor

if TYPE_CHECKING:
    from unhang.diagnosis.diagnose import JobVerdict


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
    color: bool | None
    debug: bool

    @classmethod
    def chosen(cls, form: str, *, lang: str | None, redact: bool, color: bool | None, debug: bool) -> VerdictOutput:
        """The output the options ask for. JSON stays English unless a language is named."""
        from unhang.report.language import resolve_language

        return cls(form, "en" if form == "json" and not lang else resolve_language(lang), redact, color, debug)

    def give(self, verdict: Verdict, facts: Facts, out: Path | None, *, jobs: Sequence[JobVerdict] = ()) -> None:
        """Write the verdict to ``out``, or to standard output when it is None. ``jobs``: where files are of several,
        each with its verdict, this one first."""
        if self.debug:
            for finding in verdict.findings:
                told = f"{finding.cause.value}, {finding.certainty.value}, grade {finding.grade!r}"
                print(f"rule {finding.detector}: {told}", file=sys.stderr)
        if out is not None:
            write_private(out, self._text(verdict, facts, jobs))
            print(f"verdict written to {out}", file=sys.stderr)
        elif self.form != "text":
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
            raise _write_error(path, error) from error
        print(f"HTML report written to {path}", file=sys.stderr)

    def _print(self, verdict: Verdict, facts: Facts) -> None:
        from unhang.report.text import print_text

        file = standard_output(self.color)
        print_text(verdict, facts, lang=self.lang, file=file, redactor=self.redactor(verdict, facts))

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

    def redactor(self, verdict: Verdict, facts: Facts) -> Redactor:
        """One that knows every name of them."""
        redactor = Redactor(share=self.redact)
        redactor.learn_from(verdict, facts)
        return redactor


class TerminalStream(io.StringIO):
    """Standard output that says it is a terminal: ``--color`` into a pipe."""

    def __init__(self, target: TextIO) -> None:
        super().__init__()
        self._target = underlying_stream(target)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the real output."""
        return getattr(self._target, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Always: the user asked for colour."""
        return True

    def write(self, text: str) -> int:
        """Pass ``text`` on: the sheet made it printable and coloured it."""
        return self._target.write(text)


def standard_output(color: bool | None) -> TextIO:
    """Standard output, coloured as the user asks."""
    if color is False:
        os.environ["NO_COLOR"] = "1"
    return TerminalStream(sys.stdout) if color else sys.stdout


def write_private(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, readable by its owner only. Raises UsageError when that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, 0o600)
            file.write(text)
    except OSError as error:
        raise _write_error(path, error) from error


def _write_error(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written ({error.strerror or type(error).__name__})")
