"""What ``unhang diagnose`` does once its command line is read; needs no parser loaded."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unhang.cli.output.notes import note

if TYPE_CHECKING:
    from unhang.cli.output.verdict_output import VerdictOutput
    from unhang.diagnosis.jobs import JobVerdict
    from unhang.errors import EvidenceError
    from unhang.evidence.checkpoints.checkpoint import Checkpoint
    from unhang.evidence.evidence_set import EvidenceSet
    from unhang.facts.model import Facts

ARTICLE_CHARS, ARTICLE_BYTES, PROSE_SHARE = 200, 400_000, 0.3
"""Of a file that may be an article: its size, and how many sentences, headings and items of lists a line it has."""
_OF_PROSE = ("\n#", "\n- ", "\n* ", "\n1. ", "。", "；", ". ", ".\n", "<p", "<li")
PATIENCE_S = 5.0
"""So long a pipe may be silent before it is taken for one that nobody writes to: a scheduler's, an editor's."""


@dataclass(frozen=True, slots=True)
class DiagnoseRequest:
    """What is to be read, and how the verdict is wanted; as the options of ``unhang diagnose``."""

    paths: Sequence[str]
    form: str = "text"
    html: Path | None = None
    lang: str | None = None
    checkpoints: Sequence[Path] = ()
    redact: bool = False
    save_case: Path | None = None
    patch: str | None = None
    """The file for the patch; empty: it is the answer."""
    engine: str = "local"
    engine_address: str = ""

    def answer(self) -> int:
        """Read, decide, write; the exit code."""
        from unhang.cli.output.verdict_output import VerdictOutput, exit_code

        output = VerdictOutput.chosen(self.form, lang=self.lang, redact=self.redact)
        if self.save_case is not None:
            from unhang.report.saved_case import check_case

            check_case(self.save_case, self.paths)
        self._note_article()
        evidence = self._read()
        if self.checkpoints:
            evidence.checkpoints += _checkpoints(self.checkpoints, evidence)
        found = _reason(evidence)
        first, jobs = found[0], found if len(found) > 1 else ()
        if self.html is not None:
            output.write_html(self.html, first.verdict, first.facts, jobs)
        if self.save_case is not None:
            _save_case(self.save_case, self.paths, evidence, found)
        if self.patch is None or not _give_patch(first, output, self.patch):
            output.give(first.verdict, first.facts, jobs=jobs)
        return exit_code(first.verdict)

    def _read(self) -> EvidenceSet:
        from unhang.cli.output.progress_bar import ReadingBar
        from unhang.evidence.inputs import read_evidence

        if "-" in self.paths and sys.stdin.isatty():
            note("paste the log, then press Ctrl-D", lead="")
        with ReadingBar() as bar:
            return read_evidence(self.paths, progress=bar.tell, engine=self.engine, engine_address=self.engine_address)

    def _note_article(self) -> None:
        """Say that what is given reads like an article, and what judges it; what it quotes is read all the same."""
        path, text = self.paths[0], ""
        with suppress(OSError, ValueError):
            if len(self.paths) == 1 and os.path.isfile(path) and os.path.getsize(path) <= ARTICLE_BYTES:  # noqa: PTH113, PTH202 - as in main
                text = Path(path).read_text("utf-8", "replace")
        if len(text) < ARTICLE_CHARS or sum(map(text.count, _OF_PROSE)) <= PROSE_SHARE * text.count("\n"):
            return
        from unhang.report.explain.article_advice import advice_in
        from unhang.report.language import resolve_language, translate
        from unhang.sentences import Text, say

        advice = advice_in(text)[1]
        if any(one.sentence.part == "advice" for one in advice):  # below a heading: programs advise too, but not there
            judged = say("{path} is an article with {count} pieces of advice; unhang explain {path} judges them.")
            told = Text(judged.template, {"path": path, "count": len(advice)})
            print(f"unhang: {translate(told, resolve_language(self.lang))}", file=sys.stderr)


_VALUES: Mapping[str, str] = {"--format": "form", "--lang": "lang", "--html": "html"}
_FORMS = ("text", "json", "markdown", "html")


def run_without_parser(words: Sequence[str]) -> int | None:
    """The verdict on ``words``; None where they need the parser."""
    asked = parse_request(words)
    return None if asked is None else asked.answer()


def parse_request(words: Sequence[str]) -> DiagnoseRequest | None:
    """What ``words`` ask for, read as the parser reads them; None where only it can tell or say what is wrong."""
    paths: list[str] = []
    options: dict[str, Any] = {}
    left = iter(words)
    for word in left:
        name, joined, value = word.partition("=")
        if not word.startswith("-") or word == "-":
            paths.append(word)
        elif word == "--redact":
            options["redact"] = True
        elif name in _VALUES:
            options[_VALUES[name]] = value if joined else next(left, "-")
        else:
            return None
    given = [value for value in options.values() if isinstance(value, str)]
    if not paths or options.get("form", "text") not in _FORMS or any(not one or one[0] == "-" for one in given):
        return None
    html = options.pop("html", None)
    return DiagnoseRequest(paths, html=None if html is None else Path(html), **options)


def standard_input_has_text() -> bool:
    """A pipe that somebody writes to, or a file (``unhang < job.log``) of which nobody has read yet: the rest of a
    script that a shell reads is not for us."""
    with suppress(OSError, ValueError):
        number = sys.stdin.fileno()
        kind = os.fstat(number)
        if stat.S_ISREG(kind.st_mode):
            return kind.st_size > 0 and os.lseek(number, 0, os.SEEK_CUR) == 0
        return stat.S_ISFIFO(kind.st_mode) and _holds_text(number)
    return False


def _holds_text(pipe: int) -> bool:
    import array
    import select

    if os.name != "posix" or not select.select([pipe], [], [], PATIENCE_S)[0]:
        return False
    import fcntl
    import termios

    size = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, size)  # nothing to read: its writer has ended
    return size[0] > 0


def _checkpoints(folders: Sequence[Path], evidence: EvidenceSet) -> tuple[Checkpoint, ...]:
    from unhang.errors import UsageError
    from unhang.facts.build import build_facts
    from unhang.watch.sampling.checkpoint_search import LIMIT_S, CheckpointSearch

    for folder in folders:
        if not folder.exists():
            raise UsageError(f"{folder} does not exist", next_step="give --checkpoints the folder the job saves into")
    found = CheckpointSearch(folders, world_size=build_facts(evidence).world_size).found(LIMIT_S)
    if found is None:
        note(f"{folders[0]} did not answer within {LIMIT_S:.0f} s; checkpoints: not checked")
    elif not found:
        note(f"no checkpoint of a known layout in {folders[0]}")
    return found or ()


def _reason(evidence: EvidenceSet) -> tuple[JobVerdict, ...]:
    from unhang.diagnosis.jobs import diagnose_jobs
    from unhang.facts.logs.foreign_text import holds_no_training
    from unhang.findings import Status

    jobs = diagnose_jobs(evidence)
    unknown = all(job.verdict.status is Status.UNKNOWN and job.verdict.lead is None for job in jobs)
    if unknown and all(holds_no_training(job.facts) for job in jobs):
        raise _no_training_log(jobs[0].facts)
    return jobs


def _no_training_log(facts: Facts) -> EvidenceError:
    from unhang.errors import EvidenceError

    names = ", ".join(log.source.path for log in facts.logs[:3]) + (", …" if len(facts.logs) > 3 else "")
    lines = sum(log.lines for log in facts.logs)
    return EvidenceError(
        f"This is no training log: no rank, launcher or training library wrote {names} "
        f"({lines} line{'s' if lines != 1 else ''})",
        next_step="give the job's log or its flight-recorder dumps: unhang diagnose PATH",
    )


def _give_patch(job: JobVerdict, output: VerdictOutput, target: str) -> bool:
    from unhang.cli.output.answer import give_patch
    from unhang.report.patch import PatchSources

    sources = PatchSources(job.facts.sources, tuple(job.facts.sources.values()))
    return give_patch(job.verdict, sources, target, output.localizer(job.verdict, job.facts))


def _save_case(folder: Path, paths: Sequence[str], evidence: EvidenceSet, found: Sequence[JobVerdict]) -> None:
    from unhang.report.saved_case import save_case

    written = save_case(folder, paths, evidence, found)
    note(f"case written to {folder} ({written} redacted files); review it before you share it", lead="")
