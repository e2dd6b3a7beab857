"""Somebody else's text in Markdown: shown as it is, and never a link, a mention, a picture or markup.

What a reader of Markdown acts on by itself (``@team``, ``#123``, addresses) cannot be made literal with a backslash: a
word that holds such a thing stands as inline code, where nothing is acted on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from unhang.report.language import space_seams, translate
from unhang.report.localizer import Localizer
from unhang.sentences import Text

_LIVE = re.compile(r"@|#\d|!\d|:/|www\.|\bGH-\d|\b[0-9a-f]{7,}\b|&#?\w+;|:\w+:", re.IGNORECASE)
"""Mentions, e-mail addresses, numbers of issues, URLs, commits, HTML's entities, names of pictures."""
_EDGES = re.compile(r"([(\"'“‘（《]*)(.*?)([)\"'”’）》,.;:!?，。；：！？、]*)", re.DOTALL)
_PLACE = "\ue000{}\ue001"
_PLACED = re.compile("\ue000(\\d+)\ue001")
_PARTS = re.compile("`[^`]*`|#(?:\\d|\ue000\\d+\ue001)+|\ue000\\d+\ue001")
"""Code, the number of a call, and what is filled in."""


def escape_markdown(text: str) -> str:
    """``text`` on one line with what Markdown or HTML would act on made literal; ``_`` inside words is harmless."""
    line = " ".join(map(_word, text.split()))
    return re.sub(r"^(\d+(?=[.)](?:\s|$))|(?=[#+-]))", r"\1\\", line)


def _word(word: str) -> str:
    if _LIVE.search(word):
        before, inner, after = _EDGES.fullmatch(word).groups()  # type: ignore[union-attr]  # it matches anything
        return f"{before}{inline_code(inner)}{after}" if inner else _literal(word)
    return _literal(word)


def _literal(word: str) -> str:
    word = re.sub(r"([\\`*\[\]<>|~])", r"\\\1", word)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9_])", r"\\_", word)


def inline_code(text: str) -> str:
    """``text`` as inline code, with a fence longer than any run of backticks in it."""
    text = " ".join(text.split()) or " "
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def sentence(text: Text, localizer: Localizer) -> str:
    """A sentence of ours: Markdown in its template is meant, everything that was filled in is made literal, and the
    number of a call is none of an issue."""
    return _filled(text, localizer, localizer.sentence)


def inline_text(text: Text, localizer: Localizer) -> str:
    """The same as it stands, for a part of a line."""
    return _filled(text, localizer, lambda placed: localizer.line(translate(placed, localizer.lang)))


def _filled(text: Text, localizer: Localizer, speak: Callable[[Text], str]) -> str:
    values: list[str] = []

    def placed(value: Any) -> Any:
        if isinstance(value, Text):
            return Text(value.template, {name: placed(one) for name, one in value.values.items()})
        if not isinstance(value, str):
            return value
        values.append(localizer.line(translate(Text("{value}", {"value": value}), localizer.lang)))
        return _PLACE.format(len(values) - 1)

    return space_seams(_PARTS.sub(lambda match: _part(match[0], values), speak(placed(text))))


def _part(part: str, values: list[str]) -> str:
    if part.startswith("\ue000"):
        return f"\0{escape_markdown(_PLACED.sub(lambda match: values[int(match[1])], part))}\0"
    code = _PLACED.sub(lambda match: values[int(match[1])].replace("`", "'"), part)
    return code if code.startswith("`") else f"\0`{code}`\0"
