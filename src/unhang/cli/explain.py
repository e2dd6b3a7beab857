"""``unhang explain WORD…``: what a cause, a variable, a code, an operation or a pasted message means."""

from __future__ import annotations

import enum
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unhang.errors import UsageError
    from unhang.report.explain.page import Explanation
    from unhang.report.voice import Voice

PASTE_CHARS = 1 << 20


class ExplanationFormat(str, enum.Enum):
    """How the explanation is written."""

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
    """Say what a word, a code or a line of a log means, when it is harmless, and what to do. Works offline.

    Exit code: 0 explained, 2 not known.
    """
    from unhang.report.explain.find import explain as find
    from unhang.report.language import resolve_language
    from unhang.report.voice import Voice

    as_json = form is ExplanationFormat.JSON
    voice = Voice("en" if as_json and not lang else resolve_language(lang))
    found = find(_asked(words))
    if as_json:
        from unhang.report.explain.document import explanation_json

        sys.stdout.write(explanation_json(found, voice))
    elif found.pages:
        _print(found, voice, color)
    else:
        raise _unknown(found, voice)
    raise typer.Exit(0 if found.pages else 2)


def _asked(words: list[str]) -> str:
    if words != ["-"]:
        return " ".join(words)
    if sys.stdin.isatty():
        print("paste the message, then press Ctrl-D", file=sys.stderr)
    stream = getattr(sys.stdin, "buffer", None)
    return stream.read(PASTE_CHARS).decode("utf-8", "replace") if stream is not None else sys.stdin.read(PASTE_CHARS)


def _print(found: Explanation, voice: Voice, color: bool | None) -> None:
    from unhang.cli.verdict_output import AsTerminal
    from unhang.report.explain.printed import explanation_sheet
    from unhang.report.sheet import width_of

    if color is False:
        os.environ["NO_COLOR"] = "1"
    explanation_sheet(found, voice, width_of(sys.stdout)).print_to(AsTerminal(sys.stdout) if color else sys.stdout)


def _unknown(found: Explanation, voice: Voice) -> UsageError:
    from unhang.errors import UsageError
    from unhang.findings import say

    asked = voice.line(found.asked, 60)
    if not asked:
        text = say("There is no word to explain.")
    elif found.similar:
        text = say(
            "Nothing here is known by {asked}. Did you mean: {names}?", asked=asked, names=", ".join(found.similar)
        )
    else:
        text = say("Nothing here is known by {asked}.", asked=asked)
    return UsageError(voice.say(text), next_step=voice.say(say("unhang diagnose FILE reads whole logs")))
