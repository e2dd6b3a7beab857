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
            help="Cause, environment variable, Xid, exit code, NCCL error, operation, phrase, or a whole log line;"
            " -: standard input. Of an article (- or a FILE) each piece of advice is judged, with -- CMD for this job.",
        ),
    ],
    form: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.TEXT,
    lang: Language = None,
) -> None:
    """Explain an error, a log line, an environment variable or a code, or judge the advice of an article.

    Shows what it means, when it is harmless, what to do, and which public incidents contain it. Works offline.

    Exit codes: 0 explained, 2 not known.

    Examples:
    unhang explain NCCL_P2P_DISABLE
    unhang explain Xid 79
    dmesg -T | tail -n 1 | unhang explain -
    unhang explain article.html -- torchrun --nproc-per-node 8 train.py
    """
    raise typer.Exit(print_explanation(words, form=form.value, lang=lang))
