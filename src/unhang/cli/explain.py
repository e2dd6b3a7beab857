"""``unhang explain WORD…``: what a cause, a variable, a code, an operation or a pasted message means."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from unhang.cli.explaining import print_explanation


class ExplanationFormat(str, enum.Enum):
    """Output format of an explanation."""

    TEXT = "text"
    JSON = "json"


def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORD",
            help="A cause, an environment variable, an Xid, an exit code, an NCCL error, an operation, a phrase,"
            " or a line of a log pasted whole; - for standard input.",
        ),
    ],
    form: Annotated[
        ExplanationFormat, typer.Option("--format", help="How to write the explanation.")
    ] = ExplanationFormat.TEXT,
    lang: Annotated[str | None, typer.Option("--lang", help="Language; default: the locale's.")] = None,
    color: Annotated[
        bool | None, typer.Option("--color/--no-color", help="Colour; default: when on a terminal.")
    ] = None,
) -> None:
    """Say what a word, a code or a line of a log means, when it is harmless, what to do, and which incidents hold it.

    Works offline.

    Exit code: 0 explained, 2 not known.
    """
    raise typer.Exit(print_explanation(words, as_json=form is ExplanationFormat.JSON, lang=lang, color=color))
