"""Secrets that their place tells: in a URL, a header, a cookie, a known command, a file of passwords, a key's block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from unhang.late_pattern import late_pattern
from unhang.secrets.line_filter import HintedLines

_PLACE = Path(__file__).with_name("places.tsv")
_COOKIE_LINE = late_pattern(r"\b(?:set-)?cookies?[\"']?\s*[:=]\s*(?P<jar>[^\n]{4,4096})", re.IGNORECASE)
_CRUMB = late_pattern(r"[\w.-]{1,64}[\"']?\s*[=:]\s*[\"']?(?P<secret>(?=[^;,\s\"'}]*\d)[^;,\s\"'}]{12,})")
_VALUE = r"(?:\"(?P<d>[^\"\n]{2,200})\"|'(?P<s>[^'\n]{2,200})'|(?P<b>[^\s\"'|;&-][^\s\"'|;&]*))"
_MIDDLE = r"\b[^|;&\n]{0,300}?\s"
_BLOCKS = late_pattern(
    r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----(?P<secret>.{0,16384}?)"
    r"(?:-----END[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|\bPrivate-Lines: \d+\n(?P<putty>(?:[A-Za-z0-9+/=]{1,64}(?:\n|\Z)){1,200})",
    re.DOTALL,
)
_JAR_HINTS = ("cookie",)


@cache
def _places() -> tuple[tuple[tuple[str, ...], tuple[re.Pattern[str], ...]], ...]:
    """The patterns of the table by the literals of which one stands in every line that they match."""
    found: dict[str, list[re.Pattern[str]]] = {}
    for line in _PLACE.read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            _, literals, pattern = line.split("\t")
            whole = pattern.replace("{VALUE}", _VALUE).replace("{MIDDLE}", _MIDDLE)
            found.setdefault(literals, []).append(late_pattern(whole))
    return tuple((tuple(literals.split("|")), tuple(patterns)) for literals, patterns in found.items())


def hints() -> tuple[str, ...]:
    """Literals, in lower case, that tell the lines worth a pattern."""
    return (*_JAR_HINTS, *(literal for literals, _ in _places() for literal in literals))


def secret_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Where in ``text`` (of many lines) the bodies of private keys stand."""
    if "PRIVATE KEY" not in text and "Private-Lines" not in text:
        return
    for match in _BLOCKS.finditer(text):
        yield match.span("secret") if match["secret"] is not None else match.span("putty")


def secrets_in_places(lines: HintedLines) -> Iterator[tuple[int, int]]:
    """Where secrets stand that only their place tells."""
    for literals, patterns in _places():
        for at, line in lines.with_any(literals):
            for pattern in patterns:
                yield from _values(pattern, line, at)
    for at, line in lines.with_any(_JAR_HINTS):
        jar = _COOKIE_LINE.search(line)
        if jar is not None:
            yield from (
                (at + crumb.start("secret"), at + crumb.end("secret"))
                for crumb in _CRUMB.finditer(line, jar.start("jar"))
            )


def _values(pattern: re.Pattern[str], line: str, at: int) -> Iterator[tuple[int, int]]:
    names = pattern.groupindex
    for match in pattern.finditer(line):
        yield from ((at + match.start(name), at + match.end(name)) for name in names if match[name] is not None)
