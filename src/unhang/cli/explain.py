"""``unhang explain WORD…``: what a cause, a variable, a code, an operation or a pasted message means."""

from __future__ import annotations

from typing import Annotated

import typer

from unhang.cli.explaining import print_explanation
from unhang.cli.options import Format, Language


def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORD…",
            help="A cause, an environment variable, an Xid, an exit code, an NCCL error, an operation, a phrase,"
            " or a line of a log pasted whole; - for standard input.",
        ),
    ],
    form: Annotated[Format, typer.Option("--format", help="How to write the explanation.")] = Format.TEXT,
    lang: Language = None,
) -> None:
    """Say what a word, a code or a line of a log means, when it is harmless, what to do, and which incidents hold it.

    Works offline.

    Exit code: 0 explained, 2 not known.

    Examples:
    unhang explain NCCL_P2P_DISABLE
    unhang explain Xid 79
    dmesg -T | tail -n 1 | unhang explain -
    """
    raise typer.Exit(print_explanation(words, form=form.value, lang=lang))
