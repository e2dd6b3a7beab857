"""What is said beside an answer, on standard error, in the language that the command line asks for: notes, errors, and
what helps then. All of it is written in English where it arises."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar

from unhang.errors import UsageError
from unhang.report.printable import one_line

_WRAP_COMMANDS = ("run", "ramp")
_Asked = tuple[Sequence[str], Callable[[str], "str | None"]]
_ASKED: ContextVar[_Asked] = ContextVar("command line", default=((), lambda _verb: None))


def speak_as_asked(words: Sequence[str], default: Callable[[str], str | None]) -> None:
    """From now on the language is that of ``--lang`` in ``words``, else the ``default`` of their verb, or the locale's."""
    _ASKED.set((words, default))


def note(text: str, lead: str = "unhang: ") -> None:
    """Print ``text`` on one line: names in it are of files, and none begins a line of ours."""
    print(f"{lead}{one_line(in_language(text))}", file=sys.stderr, flush=True)


def in_language(text: str) -> str:
    """``text``, an error or a note in English, in the language asked for."""
    from unhang.report.language import resolve_language, translate_error

    try:
        lang = resolve_language(_language())
    except UsageError:  # no such language: this is the error
        lang = resolve_language(None)
    return translate_error(text, lang)


def _language() -> str | None:
    words, default = _ASKED.get()
    verb = lang = before = ""
    for word in words:
        of_option = before.startswith("-")
        if word == "--" or (verb in _WRAP_COMMANDS and not of_option and not word.startswith("-")):
            break  # what follows belongs to the command that is started
        if before == "--lang" or word.startswith("--lang="):
            lang = word.removeprefix("--lang=")
        elif not verb and not word.startswith("-"):
            verb = word
        before = word
    return lang or default(verb)
