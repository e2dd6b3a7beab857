"""``unhang diagnose PATH…``: read what a job left behind and say why it stopped."""

from __future__ import annotations

import enum
import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unhang.evidence.checkpoints.checkpoint import Checkpoint
    from unhang.evidence.items import EvidenceSet
    from unhang.facts.model import Facts
    from unhang.findings import Verdict


class Format(str, enum.Enum):
    """How the verdict is written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


def diagnose(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Logs, flight-recorder dumps, stack dumps, bundles, folders, globs, - for standard input; any mix.",
        ),
    ],
    form: Annotated[
        Format, typer.Option("--format", metavar="FORM", help="text, json, markdown or html.")
    ] = Format.TEXT,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the verdict to FILE.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a self-contained HTML report.")
    ] = None,
    lang: Annotated[str | None, typer.Option("--lang", metavar="LANG", help="en or zh; default: the locale's.")] = None,
    checkpoints: Annotated[
        list[Path] | None,
        typer.Option("--checkpoints", metavar="DIR", help="Where the job saves: says which checkpoint is whole."),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Rename users, hosts, addresses and paths for sharing.")
    ] = False,
    save_case: Annotated[
        Path | None,
        typer.Option("--save-case", metavar="DIR", help="Write the redacted inputs and the verdict as a test case."),
    ] = None,
    color: Annotated[
        bool | None, typer.Option("--color/--no-color", help="Colour; default: when on a terminal.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show which rule decided, and traces of errors.")] = False,
) -> None:
    """Say why the job stopped, from whatever it left behind.

    Exit code: 0 nothing wrong, 1 something stops or slows the job, 2 nothing could be read.
    """
    # a verb keeps what it reads until it ends: looking for rubbish often costs a tenth of its time
    gc.set_threshold(50_000)
    from unhang.cli.verdict_output import VerdictOutput, exit_code

    output = VerdictOutput.chosen(form.value, lang=lang, redact=redact, color=color, debug=debug)
    if save_case is not None:
        from unhang.report.saved_case import check_case

        check_case(save_case, paths)
    evidence = _read(paths)
    if checkpoints:
        evidence.checkpoints += _checkpoints(checkpoints, evidence)
    facts, verdict = _reason(evidence)
    if html is not None:
        output.write_html(html, verdict, facts)
    if save_case is not None:
        _save_case(save_case, paths, evidence, facts, verdict)
    output.give(verdict, facts, out)
    raise typer.Exit(exit_code(verdict))


def _read(paths: list[str]) -> EvidenceSet:
    from unhang.cli.progress_bar import ReadingBar
    from unhang.evidence.inputs import read_evidence

    if "-" in paths and sys.stdin.isatty():
        print("paste the log, then press Ctrl-D", file=sys.stderr)
    with ReadingBar() as bar:
        return read_evidence(paths, progress=bar.tell)


def _checkpoints(folders: list[Path], evidence: EvidenceSet) -> tuple[Checkpoint, ...]:
    from unhang.errors import UsageError
    from unhang.facts.build import build_facts
    from unhang.watch.checkpoint_look import LIMIT_S, CheckpointLook

    for folder in folders:
        if not folder.exists():
            raise UsageError(f"{folder} does not exist", next_step="give --checkpoints the folder the job saves into")
    found = CheckpointLook.start(folders, world_size=build_facts(evidence).world_size).found(LIMIT_S)
    if found is None:
        print(f"unhang: {folders[0]} did not answer within {LIMIT_S:.0f} s; checkpoints: not checked", file=sys.stderr)
    elif not found:
        print(f"unhang: no checkpoint of a known layout in {folders[0]}", file=sys.stderr)
    return found or ()


def _reason(evidence: EvidenceSet) -> tuple[Facts, Verdict]:
    from unhang.diagnosis.diagnose import diagnose as decide
    from unhang.facts.build import build_facts

    facts = build_facts(evidence)
    return facts, decide(facts)


def _save_case(folder: Path, paths: list[str], evidence: EvidenceSet, facts: Facts, verdict: Verdict) -> None:
    from unhang.report.saved_case import save_case

    written = save_case(folder, paths, evidence, facts, verdict)
    print(f"case written to {folder} ({written} redacted files); look through it before you share it", file=sys.stderr)
