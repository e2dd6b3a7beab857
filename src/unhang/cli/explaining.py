"""What ``unhang explain`` does once its command line is read; needs no parser loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unhang.errors import UsageError
    from unhang.report.explain.page import Explanation
    from unhang.report.localizer import Localizer

PASTE_CHARS = 1 << 20


def run_without_parser(words: Sequence[str]) -> int | None:
    """What ``words`` mean, as text; None where an option is among them."""
    return None if any(word.startswith("-") and word != "-" for word in words) else print_explanation(words)


def print_explanation(words: Sequence[str], *, form: str = "text", lang: str | None = None) -> int:
    """Say what ``words`` mean; the exit code."""
    from unhang.report.explain.search import explain as find
    from unhang.report.language import resolve_language
    from unhang.report.localizer import Localizer

    localizer = Localizer("en" if form == "json" and not lang else resolve_language(lang))
    found = find(_question(words, localizer))
    if form == "json":
        from unhang.report.explain.document import explanation_json

        sys.stdout.write(explanation_json(found, localizer))
    elif found.pages or found.incidents:
        _print(found, localizer, form)
    else:
        raise _unknown(found, localizer)
    return 0 if found.pages or found.incidents else 2


def _question(words: Sequence[str], localizer: Localizer) -> str:
    if list(words) != ["-"]:
        return " ".join(words)
    if sys.stdin.isatty():
        from unhang.sentences import say

        print(localizer.say(say("Paste the message, then press Ctrl-D.")), file=sys.stderr)
    stream = getattr(sys.stdin, "buffer", None)
    return stream.read(PASTE_CHARS).decode("utf-8", "replace") if stream is not None else sys.stdin.read(PASTE_CHARS)


def _print(found: Explanation, localizer: Localizer, form: str) -> None:
    from unhang.cli.output.answer import give_layout
    from unhang.report.explain.explanation_text import explanation_layout
    from unhang.report.layout.text_layout import width_of

    give_layout(explanation_layout(found, localizer, width_of(sys.stdout)), form)


def _unknown(found: Explanation, localizer: Localizer) -> UsageError:
    from unhang.errors import UsageError
    from unhang.sentences import say

    asked = localizer.line(found.asked, 60)
    if not asked:
        text = say("Nothing to explain: give a word, a code or a line of a log.")
    elif found.similar:
        text = say("No entry for '{asked}'. Did you mean: {names}?", asked=asked, names=", ".join(found.similar))
    else:
        text = say("No entry for '{asked}'.", asked=asked)
    return UsageError(localizer.say(text), next_step=localizer.say(say("for a whole log: unhang diagnose FILE")))
