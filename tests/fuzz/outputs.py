"""What no output may hold, whatever the evidence does: control characters, markup that acts, a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from typing import Any

import msgspec
from markdown_it import MarkdownIt

from unhang.report.verdict_document import VerdictDocument

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
OUR_MISTAKE = re.compile(r"Traceback \(most recent|internal error|Error in |Warning: |not enough memory")
TAGS = frozenset(
    (
        *("html", "head", "meta", "title", "style", "body", "script", "main", "header", "footer", "nav", "section"),
        *("h1", "h2", "h3", "p", "div", "span", "a", "ul", "ol", "li", "dl", "dt", "dd", "table", "thead", "tbody"),
        *("tr", "th", "td", "pre", "code", "details", "summary", "svg", "g", "rect", "text", "path", "defs", "marker"),
        *("strong", "em", "small", "button", "label", "input", "select", "option", "br", "figure", "figcaption"),
        *(
            "polyline",
            "line",
            "circle",
            "article",
            "aside",
            "time",
            "mark",
            "b",
            "i",
            "polygon",
            "desc",
            "caption",
            "noscript",
        ),
    )
)
LIVE = re.compile(r"(?<![\w/.`])@\w|https?://|www\.|(?<![\w&])#\d")


def wrong_with(form: str, text: str) -> Iterator[str]:
    """What is wrong with one output."""
    if (found := CONTROL.search(text)) is not None:
        around = text[max(0, found.start() - 30) : found.end() + 20]
        yield f"{form}: control character {found[0]!r} in {around!r}"
    if form == "html":
        yield from _html(text)
    elif form == "markdown":
        yield from _markdown(text)
    elif form == "json":
        yield from _json(text)


def wrong_with_errors(text: str) -> Iterator[str]:
    """What is wrong with standard error."""
    yield from wrong_with("stderr", text)
    if (found := OUR_MISTAKE.search(text)) is not None:
        yield f"stderr: {text[found.start() : found.start() + 200]!r}"


def _json(text: str) -> Iterator[str]:
    try:
        msgspec.json.decode(text, type=VerdictDocument)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        yield f"json: {error}"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        if tag not in TAGS:
            self.wrong.append(f"html: element {tag[:40]!r}")
        for name, value in attrs:
            acts = name.startswith("on") or name in ("srcdoc", "formaction", "action", "xlink:href")
            leads = name in ("src", "href") and not (value or "").startswith("#")
            if acts or leads or (name == "style" and "url(" in (value or "")):
                self.wrong.append(f"html: {tag} {name}={value!r}"[:200])


def _html(text: str) -> Iterator[str]:
    page = _Page()
    page.feed(text)
    page.close()
    yield from page.wrong[:3]
    if page.scripts != 2:
        yield f"html: {page.scripts} scripts, not our own two"


@cache
def _reader() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table").enable("strikethrough")


def _markdown(text: str) -> Iterator[str]:
    todo: list[Any] = list(_reader().parse(text))
    while todo:
        token = todo.pop()
        todo.extend(token.children or ())
        if token.type in ("html_inline", "html_block", "link_open", "image", "heading_open"):
            yield f"markdown: {token.type} {token.content[:80]!r} {str(token.attrs)[:80]}"
        if token.type == "text" and (found := LIVE.search(token.content)) is not None:
            yield f"markdown: live {token.content[max(0, found.start() - 20) : found.end() + 30]!r}"
