"""``unhang diagnose PATH…``: read what a job left behind and say why it stopped."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from unhang.cli.diagnosing import DiagnoseRequest


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

    Exit code: 0 every rank is shown to be well, 1 something stops or slows the job, 2 nothing decides it.
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
