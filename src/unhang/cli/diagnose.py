"""``unhang diagnose PATH…``: read what a job left behind and say why it stopped."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from unhang.cli.diagnosing import DiagnoseRequest, standard_input_has_text
from unhang.cli.options import Language, Patch, Redact, ReportFormat
from unhang.errors import UsageError


class EngineName(str, enum.Enum):
    """Who reads."""

    LOCAL = "local"
    DASK = "dask"
    RAY = "ray"


def diagnose(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH…",
            help="Any mix of logs, flight-recorder and stack dumps, bundles, folders, globs, URLs (s3://…);"
            " -: standard input, the default for a pipe.",
        ),
    ] = None,
    form: Annotated[ReportFormat, typer.Option("--format", help="Output format.")] = ReportFormat.TEXT,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a self-contained HTML report.")
    ] = None,
    patch: Patch = None,
    lang: Language = None,
    checkpoints: Annotated[
        list[Path] | None,
        typer.Option("--checkpoints", metavar="DIR", help="Where the job saves; shows which checkpoint is complete."),
    ] = None,
    redact: Redact = False,
    save_case: Annotated[
        Path | None,
        typer.Option("--save-case", metavar="DIR", help="Save the redacted inputs and the verdict as a test case."),
    ] = None,
    engine: Annotated[
        EngineName, typer.Option("--engine", help="Who reads: this machine's cores, or the workers of a cluster.")
    ] = EngineName.LOCAL,
    engine_address: Annotated[
        str | None,
        typer.Option(
            "--engine-address", metavar="ADDRESS", help="Where that cluster is; default: one on this machine."
        ),
    ] = None,
) -> None:
    """Find out why a job stopped, from the logs, dumps and stacks it left.

    Exit codes: 0 healthy, 1 something stops or slows the job, 2 bad usage or nothing to read, 3 undecided: no problem
    found, or not enough to tell.

    Examples:
    unhang diagnose train.log
    unhang diagnose logs/ /tmp/nccl_trace_rank_* --html report.html
    kubectl logs job/train | unhang diagnose --format markdown
    """
    if not paths and not standard_input_has_text():
        raise UsageError("there is nothing to diagnose", next_step="unhang diagnose PATH, or COMMAND | unhang diagnose")
    if engine_address and engine is EngineName.LOCAL:
        raise UsageError("--engine-address needs --engine dask or --engine ray")
    asked = DiagnoseRequest(
        paths=paths or ["-"],
        form=form.value,
        html=html,
        lang=lang,
        checkpoints=checkpoints or (),
        redact=redact,
        save_case=save_case,
        patch=patch,
        engine=engine.value,
        engine_address=engine_address or "",
    )
    raise typer.Exit(asked.answer())
