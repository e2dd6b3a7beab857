"""The sentences of an article, a post or an answer: plain text, Markdown, or a saved HTML page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

from unhang.report.explain.term_search import asking_words

MAX_CHARS = 400_000
_PAGE = re.compile(r"<(?:!doctype html|html|body|article|div|p|h1)\b", re.IGNORECASE)
_UNSEEN = re.compile(r"<(script|style|head|nav|svg|footer)\b.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<(/?[a-zA-Z!]\w*)[^<>]*>")
_BREAKS = {**{f"h{level}": f"\n{'#' * level} " for level in range(1, 7)}, "li": "\n- ", "td": " | ", "th": " | "}
_BREAKS |= dict.fromkeys(("p", "div", "br", "tr", "ul", "ol", "section", "blockquote"), "\n")
_BREAKS |= {f"/{name}": "\n" for name in _BREAKS} | dict.fromkeys(("pre", "/pre"), "\n```\n")  # what a reader sees
_FENCE = ("```", "~~~")
_END = re.compile(r"(?<=[。！？；])|(?<=[^)];)|(?<=[.!?])\s+(?=[^a-z\s])")
_COMMA = re.compile(r"，|,(?=[^\s\d])")
_EXAMPLES = {"proper": "advice", "wrong": "failed"}
"""Parts of a short line with such words; of the example below it too, until a heading or the end of the code."""
_CLOSES, _OPENS = "。.!！;；:：…", (":", "：")  # ends of lines that are no title, and of those that something follows
_SHORT, _MARK = 200, 3  # letters of a text that has no title, and of a line that is only a mark
_BULLETS = tuple("-*•·+–—|●▪◦■○▶►→👉")
_LISTED = re.compile(
    r"(?:[-*•·+–—|●▪◦■○▶►→👉](?!-)|[(（]?\d{1,2}(?:[)、．）]|\ufe0f?\u20e3|\.(?!\d))|[一二三四五六七八九十]+、|[①-⑳])\s*"
)
_MARKS = re.compile(r"^#+\s*|\*\*|__|^>\s*|`")
_LINK = re.compile(r"!?\[([^\]]{0,200})\]\([^)\s]{0,500}\)")
_OF_A_PROGRAM = re.compile(
    r"\[(?:[Rr]ank|PID|E|W|I|\d)|\([\w ]+ pid=\d|[IWEF]\d{4} |\d{4}-\d\d-\d\d[ T]\d|\d\d:\d\d:\d\d|Traceback|File \""
    r"|[\w.]+(?:Error|Exception):|terminate called|\S+:\d+:\d+ \[\d+\] NCCL |(?:Signal|WARNING|ERROR|INFO|DEBUG)\b"
)
_CODE = re.compile(
    r"(?:from [\w.]+ import|import \w|def |class |@[\w.]+(?:\(|$)|\w[\w.]*(?:\[[^\]]*\])? *= *\S|[\w.]+\(.*\)$"
    r"|(?:if|for|with|else)\b.*:$)",
    re.ASCII,
)
_SPEAKER = re.compile(r"(?=.{1,60}$)(?:.*\scommented\b|.* · |\S+.*\d{4}-\d\d-\d\d$)")  # who speaks next
_NAMED = re.compile(r"\w=\S|--\w|\w\(|\w_\w")  # what an author sets or calls
_LABEL = re.compile(r"([^:：=\s]{2,12}(?:\s?[\d一二三四五六七八九十]{1,2})?)(?<![前后])[:：]\s*(?=\S)")
"""What a line begins with that says what it is: ``Fix: …``, ``方法一：…``."""
_LONGEST_HEADING, _LONGEST_BARE, _WRAPPED = 40, 5, 60
"""Letters of a heading, words of one without a mark, and letters of a line that may go on in the next."""
OF_NO_ADVICE = ("causes", "described")  # parts of an article that say why it happened, and what


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
    reading = _Reading(may_have_title=len(text) > _SHORT)
    lines = _whole_lines(_without_tags(text[: 4 * MAX_CHARS])[:MAX_CHARS])
    for (number, line), (_, after) in pairwise([*lines, (0, "")]):
        yield from reading.of_line(number, line, after)


@dataclass(slots=True)
class _Reading:
    """What the lines before say of the next one. ``held``: the depth of the heading of ``part``; ``given``: the part
    of what a sentence that ends in a colon introduces."""

    may_have_title: bool
    part: str = ""
    held: int = 0
    example: str = ""
    given: str = ""
    seen: int = 0
    fenced: bool = False
    quoted: bool = False

    def of_line(self, number: int, line: str, after: str) -> Iterator[Sentence]:
        """Its sentences; ``after``: the line behind it."""
        if fence := line.lstrip().startswith(_FENCE):
            self.fenced, self.example = not self.fenced, "" if self.fenced else self.example
        bare = _MARKS.sub("", _LINK.sub(r"\1", line.strip())).strip()
        if not bare or fence:
            return
        self.seen += 1
        mark = _LISTED.match(bare)
        told = (bare[mark.end() :] if mark is not None else "") or bare
        headed = line.lstrip().startswith("#") and not self.fenced
        label = _part_of(named[1]) if (named := _LABEL.match(told)) is not None and not self.fenced else ""
        of = self._part_here(line, told, mark[0] if mark is not None else "", after, label, headed=headed)
        code = self.fenced or _CODE.match(told) is not None
        listed = bool(label) or (mark is not None and not headed and (bare[0] != "|" or bool(_NAMED.search(told))))
        self.quoted = _OF_A_PROGRAM.match(told) is not None or (self.quoted and line[0].isspace())
        for one in filter(None, map(str.strip, [told] if code else _END.split(told))):
            yield (said := Sentence(number, one, of, listed, self.quoted, code))
            if one[-1] in _OPENS and not code:
                why = "described" if says("because", one) else self.given
                self.given = (
                    "failed" if says("failed", one) else "advice" if advises(said) or says("urges", one) else why
                )

    def _part_here(self, line: str, told: str, mark: str, after: str, label: str, *, headed: bool) -> str:
        """The part of a line, which may be a heading of one; ``told``: what it says behind its ``mark``."""
        below = "" if self.fenced else _part_below(told, mark, headed=headed)
        below = "" if self.seen == 1 and below in OF_NO_ADVICE else below  # a title says what happened
        depth = len(line.lstrip()) - len(line.lstrip().lstrip("#")) if headed else 0
        speaker = not self.fenced and _SPEAKER.match(told) is not None
        if below or speaker or (headed and not mark and (self.part != "advice" or depth <= self.held)):
            self.part, self.held = "" if speaker else below, depth
        shown = next((of for use, of in _EXAMPLES.items() if len(told) <= _LONGEST_HEADING and says(use, line)), "")
        opens = told[-1] in _OPENS
        if below or headed or (shown and (self.fenced or opens or len(told) < _MARK)):
            self.example = shown
        self.given = self.given if self.fenced or mark else ""
        heads = speaker or self._is_heading(told, mark, after, below=bool(below), sure=headed or opens)
        of_part = "described" if heads else self.part if self.part == "failed" else self.given or self.part
        return shown or self.example or label or of_part

    def _is_heading(self, told: str, mark: str, after: str, *, below: bool, sure: bool) -> bool:
        acts = _acts().match(told.casefold()) is not None
        if below and not mark and (sure or not acts):
            return True
        numbered = mark and mark.strip() not in _BULLETS and not acts
        over_text = numbered and after.strip() and not _LISTED.match(after.strip())
        return told[-1] not in _CLOSES and bool(over_text or (self.seen == 1 and self.may_have_title))


def _without_tags(text: str) -> str:
    if _PAGE.search(text[:4000]) is None:
        return text
    seen = _TAG.sub(lambda tag: _BREAKS.get(tag[1].lower(), ""), _UNSEEN.sub("", text))
    return html.unescape(seen).replace("- \n", "- ")


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; one that goes on with a small letter, follows a mark that is alone, or is the value of
    a name, belongs to the line before it."""
    kept: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        at, before = kept[-1] if kept else (0, "")
        alone = before.strip() in _BULLETS and bool(line.strip())
        wrapped = len(before) >= _WRAPPED and line[:1].islower() and "=" not in line
        if alone or wrapped or (kept and line.lstrip().startswith("value:")):
            kept[-1] = (number if alone else at, f"{before.rstrip()} {line}")
        else:
            kept.append((number, line))
    return iter(kept)


def _part_below(told: str, mark: str, *, headed: bool) -> str:
    """What follows a heading; empty for lines that are none."""
    longest = _LONGEST_HEADING if headed or not mark else _LONGEST_HEADING // 2
    if len(told) > longest or told[-1] in "。.;；，" or "=" in told or mark.strip() in _BULLETS:
        return ""
    return _part_of(told) if headed or len(told.split()) <= _LONGEST_BARE else ""


def _part_of(heading: str) -> str:
    """The part of the longest word in ``heading``; one that says what to do is of no cause."""
    parts = ("failed", "advice") if says("verbs", heading) else ("failed", "advice", *OF_NO_ADVICE)
    held = [
        (len(match[0]), part) for part in parts for match in finder(asking_words()[part]).finditer(heading.casefold())
    ]
    return max(held, key=lambda one: one[0], default=(0, ""))[1]


@lru_cache(maxsize=64)
def advises(one: Sentence) -> bool:
    """Whether ``one`` advises: it starts a clause with what to do, urges or says what helped, or is an item of a
    list or a line of a program in a part on remedies. In one on causes it must also name what to set or call."""
    told = one.text.casefold().replace("’", "'")
    acts, named = _acts().search(told) is not None, _NAMED.search(told) is not None
    if asks(one):
        return False
    if one.part in OF_NO_ADVICE:
        return named and (acts or says("urges", told))
    listed = one.part in _EXAMPLES.values() and (one.listed or one.code)
    urged = says("urges", told) or says("proposes", told)
    return listed or acts or (urged and (named or says("verbs", told)))


def asks(one: Sentence) -> bool:
    """Whether ``one`` is a question, and not a proposal in the form of one."""
    return one.text[-1] in "?？" and not says("proposes", one.text)


def clauses(spoken: str) -> list[str]:
    """A sentence in small letters in parts: each ends where the next thing to do starts, or with a Chinese comma."""
    cuts = [act.start() for act in _acts().finditer(spoken)][1:] + [comma.end() for comma in _COMMA.finditer(spoken)]
    return [spoken[start:end] for start, end in pairwise(sorted({0, *cuts, len(spoken)}))]


def says(use: str, text: str) -> bool:
    """Whether ``text`` has a word of ``asking.toml`` for ``use`` (``advice``, ``against``, ``because``, ``verbs``)."""
    return finder(asking_words()[use]).search(text.casefold()) is not None


@cache
def _acts() -> re.Pattern[str]:
    """A verb that starts a clause or follows one of ``leads``, and what somebody did; not when something happened."""
    words = {use: sorted(asking_words()[use], key=len, reverse=True) for use in ("verbs", "leads")}
    (verbs, leads), (does, led) = (
        ["|".join(map(re.escape, (word for word in words[use] if word.isascii() is latin))) for use in words]
        for latin in (True, False)
    )
    did = "|".join(asking_words()["did"])
    return re.compile(
        rf"(?:^|[^\w\s'’.-]\s*|\b(?:{leads})\s+(?:\w+ly\s+)?)(?:{verbs})(?![\w(=.-])"
        rf"|\b(?:i|we)(?:'ve|\s+(?:have|had|also|then|just|simply|finally))*\s+(?!do\b|don't)(?:{did}|(?:{verbs})(?:\w?ed|d)?)\b"
        rf"|(?:^|[^\u3400-\u9fff]|{led}|[把将][^，,。]{{1,40}})(?:{does})"
        r"(?![率量户于来例者法途]|[^，,。]{0,40}(?:时|时候|过程中|[之以]?后)(?:[，,就]|$))"
    )


@cache
def finder(words: tuple[str, ...]) -> re.Pattern[str]:
    """Finds one of ``words`` in small letters: a Latin one where a word begins with it, a Chinese one anywhere."""
    starts = {word: "(?<![a-z0-9_])" if word[0].isascii() and word[0].isalnum() else "" for word in words}
    return re.compile("|".join(starts[word] + re.escape(word) for word in sorted(words, key=len, reverse=True)))
