"""The sentences of an article, a post or an answer: plain text, Markdown, or a saved HTML page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from unhang.report.explain.term_search import asking_words

MAX_CHARS = 400_000
_PAGE = re.compile(r"<(?:!doctype html|html|body|article|div|p|h1)\b", re.IGNORECASE)
_TAG = re.compile(r"(</?[a-zA-Z!][^<>]*>)")
_UNSEEN = frozenset(("script", "style", "head", "nav", "svg", "footer"))
_BREAKS = {**{f"h{level}": "\n# " for level in range(1, 7)}, "li": "\n- ", "td": " | ", "th": " | "}
_BREAKS |= dict.fromkeys(("p", "div", "br", "tr", "ul", "ol", "section", "blockquote"), "\n") | {"pre": "\n```\n"}
"""What a reader sees where a tag of a saved page stands."""
_END = re.compile(r"(?<=[。！？；;])|(?<=[.!?])\s+(?=[^a-z\s])")
_DESCRIBES = re.compile(r"e?s\b|[a-z]*ed\b|d\b")
_SHOWN = {"proper": "advice", "wrong": "failed"}
"""Parts of a short line with such words; of what follows a label too, until a heading or the end of the code."""
_CLOSES, _TITLES = "。.!！;；:：…", 2
"""Ends of lines that are no title, and how many lines from the top may be a title."""
_BULLETS = tuple("-*•·+–—|")
_LISTED = re.compile(r"(?:[-*•·+–—|]|\(?\d{1,2}[.)、．）]|[一二三四五六七八九十]+、)\s*")
_MARKS = re.compile(r"^#+\s*|\*\*|__|^>\s*|`")
_OF_A_PROGRAM = re.compile(
    r"\[(?:rank|E|W|I|\d)|[IWEF]\d{4} |\d{4}-\d\d-\d\d[ T]\d|\d\d:\d\d:\d\d|Traceback|File \""
    r"|[\w.]+(?:Error|Exception):|terminate called|\S+:\d+:\d+ \[\d+\] NCCL |(?:Signal|WARNING|ERROR|INFO)\b"
)
_FENCE = ("```", "~~~")
_CODE = re.compile(
    r"(?:from [\w.]+ import|import \w|def |class |@\w|\w[\w.]* *= *\S|[\w.]+\(.*\)$|(?:if|for|with|else)\b.*:$)"
)
_LONGEST_HEADING, _LONGEST_BARE, _WRAPPED = 40, 5, 60
"""Letters of a heading, words of one without a mark, and letters of a line that may go on in the next."""


OF_NO_ADVICE = ("causes", "described")
"""Parts of an article that say why it happened, and what."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence and its line. ``part``: ``failed``, ``advice``, or one of no advice, by its heading or by what
    the author says of an example; ``quoted``: a program wrote it; ``code``: it is a line of a program."""

    line: int
    text: str
    part: str = ""
    listed: bool = False
    quoted: bool = False
    code: bool = False


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of ``text`` in order."""
    part = shown = ""
    fenced, seen = False, 0
    for number, line in _whole_lines(_without_tags(text[: 4 * MAX_CHARS])[:MAX_CHARS]):
        if line.lstrip().startswith(_FENCE):
            fenced, shown = not fenced, "" if fenced else shown
            continue
        bare = _MARKS.sub("", line.strip()).strip()
        seen += bool(bare)
        mark = _LISTED.match(bare)
        told = bare[mark.end() :] if mark is not None else bare
        headed = line.lstrip().startswith("#") and not fenced
        below = "" if fenced else _part_below(told, mark[0] if mark is not None else "", headed=headed)
        below = "" if seen == 1 and below in OF_NO_ADVICE else below  # a title says what happened, not what follows
        part = below or ("" if headed and part != "advice" else part)
        label = next((part for use, part in _SHOWN.items() if len(told) <= _LONGEST_HEADING and says(use, line)), "")
        if below or headed or (label and (fenced or told[-1] in ":：")):
            shown = label
        title = "described" if seen <= _TITLES and told and told[-1] not in _CLOSES and not below else ""
        quoted = _OF_A_PROGRAM.match(told) is not None
        code = fenced or _CODE.match(told) is not None
        for one in filter(None, map(str.strip, [told] if code else _END.split(told))):
            yield Sentence(number, one, label or shown or title or part, mark is not None, quoted, code)


def _without_tags(text: str) -> str:
    if _PAGE.search(text[:4000]) is None:
        return text
    parts, unseen = list[str](), ""
    for piece in _TAG.split(text):
        tag = piece.strip("</>").split()[:1] if _TAG.fullmatch(piece) else []
        name, closes = "".join(tag).lower(), piece.startswith("</")
        if unseen:
            unseen = "" if closes and name == unseen else unseen
        elif name in _UNSEEN and not closes:
            unseen = name
        else:
            parts.append(
                piece if not tag else "\n" if closes and name in _BREAKS and name != "pre" else _BREAKS.get(name, "")
            )
    return html.unescape("".join(parts)).replace("- \n", "- ")


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; one that goes on with a small letter, or is the value of a name, belongs to the
    line before it."""
    kept: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        wrapped = kept and len(kept[-1][1]) >= _WRAPPED and line[:1].islower() and "=" not in line
        if wrapped or (kept and line.lstrip().startswith("value:")):
            kept[-1] = (kept[-1][0], f"{kept[-1][1].rstrip()} {line}")
        else:
            kept.append((number, line))
    return iter(kept)


def _part_below(told: str, mark: str, *, headed: bool) -> str:
    """What follows a heading; empty for lines that are none. One that advises is of no cause."""
    if not told or len(told) > _LONGEST_HEADING or told[-1] in "。.;；，" or "=" in told or mark.strip() in _BULLETS:
        return ""
    if not headed and len(told.split()) > _LONGEST_BARE:
        return ""
    parts = ("failed", "advice") if says("verbs", told) else ("failed", "advice", *OF_NO_ADVICE)
    return next((part for part in parts if says(part, told)), "")


def advises(one: Sentence) -> bool:
    """Whether ``one`` advises, as code in a part that advises does; elsewhere ``sets`` and ``configured`` describe."""
    if one.part in OF_NO_ADVICE or one.text[-1] in "?？":
        return False
    told = one.text.casefold()
    held = (match.end() for match in _words_for("verbs").finditer(told))
    if one.part == "advice" or says("doers", told):
        return one.code or any(held)
    return any(_DESCRIBES.match(told, end) is None for end in held)


def says(use: str, text: str) -> bool:
    """Whether ``text`` has a word of ``asking.toml`` for ``use`` (``advice``, ``against``, ``because``, ``verbs``)."""
    return _words_for(use).search(text.casefold()) is not None


@cache
def _words_for(use: str) -> re.Pattern[str]:
    return finder(asking_words()[use])


def finder(words: Iterable[str]) -> re.Pattern[str]:
    """Finds one of ``words`` in small letters: a Latin one where a word begins with it, a Chinese one anywhere."""
    by_length = sorted(words, key=len, reverse=True)
    return re.compile(
        "|".join(
            (r"(?<![a-z0-9_])" if word[0].isascii() and word[0].isalnum() else "") + re.escape(word)
            for word in by_length
        )
    )
