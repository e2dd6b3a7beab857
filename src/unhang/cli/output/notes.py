"""Notes and errors, on standard error: written in English where they arise, and said in the language asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar

from unhang.errors import UsageError
from unhang.report.printable import one_line

ASKED: ContextVar[Callable[[], str | None]] = ContextVar("the language that the command line asks for")


def note(text: str, lead: str = "unhang: ") -> None:
    """Print ``text`` on one line: names in it are of files, and none begins a line of ours."""
    print(f"{lead}{one_line(in_language(text))}", file=sys.stderr, flush=True)


def in_language(text: str) -> str:
    """``text``, an error or a note in English, in the language asked for."""
    from unhang.report.language import resolve_language, translate_error

    try:
        lang = resolve_language(ASKED.get(lambda: None)())
    except UsageError:  # there is no such language, which is the error
        lang = resolve_language(None)
    return translate_error(text, lang)
