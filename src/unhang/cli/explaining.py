"""What ``unhang explain`` does once its command line is read; needs no parser loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unhang.errors import UsageError
    from unhang.report.explain.page import Explanation
    from unhang.report.localizer import Localizer

PASTE_CHARS = 1 << 20
ARTICLE_CHARS = 200
"""Shorter texts are questions or lines of a log, but for several settings or sentences that advise."""


def run_without_parser(words: Sequence[str]) -> int | None:
    """What ``words`` mean, as text; None where an option is among them."""
    return None if any(word.startswith("-") and word != "-" for word in words) else print_explanation(words)


def print_explanation(words: Sequence[str], *, form: str = "text", lang: str | None = None) -> int:
    """Say what ``words`` mean; the exit code."""
    from unhang.report.explain.search import explain as find
    from unhang.report.language import resolve_language
    from unhang.report.localizer import Localizer

    localizer = Localizer("en" if form == "json" and not lang else resolve_language(lang))
    text, command = _question(words, localizer)
    found = _article(text, command, few_known=None) or find(text)
    if not found.pages and not found.incidents:
        found = _article(text, command, few_known=True) or found
    if form == "json":
        from unhang.report.explain.document import explanation_json

        sys.stdout.write(explanation_json(found, localizer))
    elif found.pages or found.incidents:
        _print(found, localizer, form)
    else:
        raise _unknown(found, localizer)
    return 0 if found.pages or found.incidents else 2


def _question(words: Sequence[str], localizer: Localizer) -> tuple[str, Sequence[str]]:
    """What is asked, and the command of the job where an article is asked about: standard input, or a file."""
    first, *command = words
    if first != "-" and not ("." in first and os.path.isfile(first)):  # noqa: PTH113 - no name is too long for it
        return " ".join(words), ()
    from unhang.evidence.logs.blocks import decoded

    if first != "-":
        with Path(first).open("rb") as file:
            return decoded(file.read(PASTE_CHARS)), command
    if sys.stdin.isatty():
        from unhang.sentences import say

        print(localizer.say(say("Paste the message, then press Ctrl-D.")), file=sys.stderr)
    stream = getattr(sys.stdin, "buffer", None)
    return decoded(stream.read(PASTE_CHARS)) if stream is not None else sys.stdin.read(PASTE_CHARS), command


def _article(text: str, command: Sequence[str], *, few_known: bool | None) -> Explanation | None:
    """``text`` as an article with its advice judged for this machine and the job of ``command``; None: it is none."""
    short = len(text) < ARTICLE_CHARS
    if short and (few_known or ("\n" not in text.strip() and "=" not in text)):
        return None
    from unhang.report.explain.article_advice import FEWEST, advice_in

    told, advice = advice_in(text, few_known=few_known)
    if not advice or (short and len({(one.sentence, one.value and one.key) for one in advice}) < FEWEST):
        return None
    from unhang.host.machine import Machine
    from unhang.report.explain.article_judgement import judged_here
    from unhang.report.explain.article_pages import explained_article

    return explained_article(told, judged_here(advice, Machine(), command), command)


def _print(found: Explanation, localizer: Localizer, form: str) -> None:
    from unhang.cli.output.answer import give_layout
    from unhang.report.explain.explanation_text import explanation_layout
    from unhang.report.layout.text_layout import width_of

    give_layout(explanation_layout(found, localizer, width_of(sys.stdout)), form)


def _unknown(found: Explanation, localizer: Localizer) -> UsageError:
    from unhang.errors import UsageError
    from unhang.report.explain.explanation_text import missing_text
    from unhang.sentences import say

    text = missing_text(found, localizer) if found.asked else None
    text = text or say("Nothing to explain: give a word, a code or a line of a log.")
    return UsageError(localizer.say(text), next_step=localizer.say(say("for a whole log: unhang diagnose FILE")))
