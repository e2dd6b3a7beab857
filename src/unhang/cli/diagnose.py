"""``unhang diagnose PATH…``: read what a job left behind and say why it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unhang.cli.diagnosing import DiagnoseRequest, standard_input_has_text
from unhang.cli.options import Language, Redact, ReportFormat
from unhang.errors import UsageError


def diagnose(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH…",
            help="Logs, flight-recorder dumps, stack dumps, bundles, folders, globs; any mix. "
            "- reads standard input, as no PATH does where something is piped in.",
        ),
    ] = None,
    form: Annotated[ReportFormat, typer.Option("--format", help="How to write the verdict.")] = ReportFormat.TEXT,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a self-contained HTML report.")
    ] = None,
    lang: Language = None,
    checkpoints: Annotated[
        list[Path] | None,
        typer.Option("--checkpoints", metavar="DIR", help="Where the job saves: says which checkpoint is whole."),
    ] = None,
    redact: Redact = False,
    save_case: Annotated[
        Path | None,
        typer.Option("--save-case", metavar="DIR", help="Write the redacted inputs and the verdict as a test case."),
    ] = None,
) -> None:
    """Say why the job stopped, from whatever it left behind.

    Exit code: 0 the job is proven well, 1 something stops or slows it, 2 bad usage or no log, dump or stack to read,
    3 undecided: no problem found, or one that nothing explains.

    Examples:
    unhang diagnose train.log
    unhang diagnose logs/ /tmp/nccl_trace_rank_* --html report.html
    kubectl logs job/train | unhang diagnose --format markdown
    """
    if not paths and not standard_input_has_text():
        raise UsageError("there is nothing to diagnose", next_step="unhang diagnose PATH, or COMMAND | unhang diagnose")
    asked = DiagnoseRequest(
        paths=paths or ["-"],
        form=form.value,
        html=html,
        lang=lang,
        checkpoints=checkpoints or (),
        redact=redact,
        save_case=save_case,
    )
    raise typer.Exit(asked.answer())
