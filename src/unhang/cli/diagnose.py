"""``unhang diagnose PATH…``: read what a job left behind and say why it stopped."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from unhang.cli.diagnosing import DiagnoseRequest
from unhang.cli.options import Color, Debug, Language, Redact


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
    color: Color = None,
    debug: Debug = False,
) -> None:
    """Say why the job stopped, from whatever it left behind.

    Exit code: 0 the job is proven well, 1 something stops or slows it, 2 bad usage or no log, dump or stack to read,
    3 undecided: no problem found, or one that nothing explains.
    """
    asked = DiagnoseRequest(
        paths=paths,
        form=form.value,
        out=out,
        html=html,
        lang=lang,
        checkpoints=checkpoints or (),
        redact=redact,
        save_case=save_case,
        color=color,
        debug=debug,
    )
    raise typer.Exit(asked.answer())
