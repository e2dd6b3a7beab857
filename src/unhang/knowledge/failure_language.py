"""The language of failure in general (``failure_language.toml``): what a line says that no table of messages knows.

Messages are known by their exact shape; here stand words, what they are said about, and what that usually means.
:func:`find_failure_statement` reads one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

from unhang.errors import KnowledgeError
from unhang.findings import Cause
from unhang.knowledge.tables import read_table, typed_rows
from unhang.late_pattern import late_pattern

_FILE = "failure_language.toml"
NAMES, WORDS, VAGUE, ELSEWHERE, HARMLESS = "names", "words", "vague", "elsewhere", "harmless"
STRENGTHS = (HARMLESS, NAMES, ELSEWHERE, VAGUE, WORDS)
"""In the order in which they are looked for."""
ANY_SITUATION = "any"
"""Whatever the situation: a row of any of them counts."""
TEXT_CHARS = 2000
MIN_CUT_CHARS = 12
"""So many letters of a phrase must be left at the end of a text that is cut off inside of it."""
CUT_SHARE = 0.75
"""And so much of all of it: with less, another phrase may have stood there."""


@dataclass(frozen=True, slots=True)
class LanguageRow:
    """Words of failure. ``cause`` is None for rows that name none of their own; ``also`` is another one that the same
    words are said of. The other fields are told in the file."""

    id: str
    words: tuple[str, ...]
    strength: Literal["harmless", "names", "elsewhere", "vague", "words"]
    source: str
    needs: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    when: Literal["", "start", "running"] = ""
    cause: Cause | None = None
    also: Cause | None = None

    def __post_init__(self) -> None:
        """Raise where cause and strength do not fit."""
        if bool(self.cause) != (self.strength in (NAMES, WORDS)) or (self.also and self.cause in (None, self.also)):
            raise ValueError(f"only the strengths {NAMES} and {WORDS} may name a cause")

    @property
    def phrases(self) -> tuple[Phrase, ...]:
        """``words`` as they are compared."""
        return _phrases(self.words)


@dataclass(frozen=True, slots=True)
class FailureStatement:
    """What a text says: the row, the words of it that stand in the text, and what they are said about."""

    row: LanguageRow
    words: str
    subject: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words as they are compared: lower case, without punctuation."""

    words: str
    longest: str
    """The literal that every text with these words holds."""

    def occurs_in(self, text: str) -> bool:
        """Whether ``text`` (of :func:`normalize_phrases`) holds these words, or is cut off inside of them."""
        if self.longest in text:
            return _phrase_pattern(self.words).search(text) is not None
        if "*" in self.words or len(self.words) <= MIN_CUT_CHARS:
            return False
        at = text.rfind(self.words[:MIN_CUT_CHARS], -len(self.words))
        return at >= 0 and len(text) - at >= CUT_SHARE * len(self.words) and self.words.startswith(text[at:])


_OTHER = late_pattern(r"[^0-9a-z\u4e00-\u9fff]+")
_PROCESS = late_pattern(r"^\S{1,80}:\d+:\d+ \[\d+\] ")
"""Host and process in front of what a library says: names in them are no words of the failure."""
_SENTENCE = late_pattern(r"(?<=[.;!?])\s+|\n")
_GUESS = late_pattern(
    r"\b(?:may|might|could be|can be|usually|possibl[ey]|perhaps|probably|e\.g|for example|if|in case|try|consider"
    r"|make sure|please|ensure|suggest\w*|hint|note|solution|to avoid|to debug|for debugging|you can|either)\b"
    r"|可能|建议|解决",
    re.IGNORECASE,
)


_ADVICE = late_pattern(
    r"(?:\b(?:(?:possible|common|potential|likely) (?:root )?(?:cause|reason)s?|solution|suggestion|how to fix)\b"
    r"|可能原因|解决方法|解决方案).*",
    re.IGNORECASE | re.DOTALL,
)


def normalize_phrases(text: str) -> str:
    """``text`` as phrases are compared with it."""
    return f" {_OTHER.sub(' ', text.lower()).strip()}"


def without_guesses(text: str) -> str:
    """``text`` without what only may be, and without advice: they state nothing. Of a sentence that guesses, what
    stands in front of the clause with the guess is kept."""
    text = _ADVICE.sub("", text)
    if _GUESS.search(text) is None:
        return text
    return " ".join(map(_before_guess, _SENTENCE.split(text)))


def _before_guess(sentence: str) -> str:
    guess = _GUESS.search(sentence)
    return sentence if guess is None else sentence[: sentence.rfind(",", 0, guess.start()) + 1]


def may_state_failure(text: str, *, zeros: bool = False) -> bool:
    """Whether a word stands in ``text`` without which no row fits; quick, for every line of a log. ``zeros``: every
    digit of it was made a 0, and the words are looked for likewise."""
    low, words = text.lower(), _words(zeros)
    if text.isascii() and text.count(" ") * _LONGEST_WORD > len(text):
        return not words.isdisjoint(_WORD.findall(low))
    return any(word in low for word in words)  # without spaces, or in a script that has none


_WORD = late_pattern(r"[0-9a-z]+")
_LONGEST_WORD = 24


_NONE_OF = late_pattern(
    r"(?<![\d.,])(?:0|no) (?:errors?|missing|corrupt\w*|fail\w*|warnings?|dropped|lost|invalid|duplicates?)\b"
    r"|\b(?:errors?|fail\w*)\s?[:=]\s?0(?![\w.])|(?:未发现|没有(?:发现)?|无)(?:任何)?(?:错误|异常|失败)",
    re.IGNORECASE,
)
"""Counted, and there were none."""


def without_counts_of_none(text: str) -> str:
    """``text`` without what it says there was none of."""
    return _NONE_OF.sub(" ", text)


@lru_cache(maxsize=8192)
def find_failure_statement(text: str, situation: str = "", *, raised: bool = False) -> FailureStatement | None:
    """The first row whose words stand in ``text``; None where it tells of no failure. ``situation`` is ``start``,
    ``running`` or ``any``; where it is not known, rows for one of them do not count. ``raised``: it ended its process,
    so that words of harmless lines do not make it harmless."""
    text = text[:TEXT_CHARS]
    if not may_state_failure(text):
        return None
    said, rows = _read(text)
    for row, phrases in rows:
        if (row.when and situation not in (row.when, ANY_SITUATION)) or (raised and row.strength == HARMLESS):
            continue
        words = next((phrase.words for phrase in phrases if phrase.occurs_in(said)), None)
        if words is None or (row.needs and not _one_of(_phrases(row.needs), said)):
            continue
        subject = next((name for name in row.about if _is_about(name, said)), "")
        if subject or not row.about:
            return FailureStatement(row, words, subject)
    return None


@lru_cache(maxsize=64)
def _read(text: str) -> tuple[str, tuple[tuple[LanguageRow, tuple[Phrase, ...]], ...]]:
    """``text`` as phrases are compared with it, and the rows of which a phrase may stand in it with these phrases."""
    said = normalize_phrases(without_counts_of_none(_PROCESS.sub(" ", without_guesses(text))))
    whole, cut = _phrases_by_literal()
    end = said[-_longest_phrase() :]
    near = {place for word, places in whole.items() if word in said for place in places}
    near.update(place for begun, places in cut.items() if begun in end for place in places)
    rows = failure_rows()
    return said, tuple(
        (rows[number], tuple(rows[number].phrases[at] for _, at in places))
        for number, places in groupby(sorted(near), key=itemgetter(0))
    )


_Places = dict[str, list[tuple[int, int]]]
"""Numbers of rows and of phrases in them."""


@cache
def _phrases_by_literal() -> tuple[_Places, _Places]:
    """Phrases by their literal, and those that may be cut off by their first letters."""
    whole: _Places = {}
    cut: _Places = {}
    for number, row in enumerate(failure_rows()):
        for at, phrase in enumerate(row.phrases):
            whole.setdefault(phrase.longest, []).append((number, at))
            cut.setdefault(phrase.words[:MIN_CUT_CHARS], []).append((number, at))
    return whole, {begun: places for begun, places in cut.items() if len(begun) == MIN_CUT_CHARS}


@cache
def _longest_phrase() -> int:
    return max(len(phrase.words) for row in failure_rows() for phrase in row.phrases)


@lru_cache(maxsize=1024)
def _is_about(subject: str, said: str) -> bool:
    return _one_of(_subjects()[subject], said)


def _one_of(phrases: Iterable[Phrase], text: str) -> bool:
    return any(phrase.occurs_in(text) for phrase in phrases)


@cache
def failure_rows() -> tuple[LanguageRow, ...]:
    """All rows: what names a cause before what only points to another place. Raises :class:`KnowledgeError` for one
    that is broken."""
    rows = typed_rows(_FILE, _table()["row"], LanguageRow)
    if len({row.id for row in rows}) != len(rows):
        raise KnowledgeError(f"{_FILE}: an id appears twice")
    return tuple(sorted(rows, key=lambda row: STRENGTHS.index(row.strength)))


@cache
def _phrases(words: tuple[str, ...]) -> tuple[Phrase, ...]:
    return tuple(Phrase(each, max(each.replace("*", " ").split(), key=len)) for each in words)


@cache
def _subjects() -> dict[str, tuple[Phrase, ...]]:
    return {name: _phrases(tuple(words)) for name, words in _table()["subjects"].items()}


@cache
def _words(zeros: bool = False) -> frozenset[str]:
    """Words one of which every text holds that any row fits."""
    words = (phrase.longest for row in failure_rows() if row.strength != HARMLESS for phrase in row.phrases)
    return frozenset(re.sub(r"\d", "0", word) if zeros else word for word in words)


@cache
def _phrase_pattern(words: str) -> re.Pattern[str]:
    return re.compile("".join(_pattern_of(words)))


def _pattern_of(words: str) -> Iterator[str]:
    """The words, of which the spaces may be missing; ``*`` is up to four words. Short ones must stand alone."""
    parts = words.split("*")
    yield r"(?<![0-9a-z])" if len(parts[0]) < MIN_CUT_CHARS and words[0].isascii() else ""
    for number, part in enumerate(parts):
        yield r" ?(?:[^ ]+ ){0,4}?" if number else ""
        yield " ?".join(map(re.escape, part.split()))
    yield r"(?![0-9a-z])" if len(parts[-1]) < MIN_CUT_CHARS and words[-1].isascii() else ""


@cache
def _table() -> dict[str, Any]:
    return read_table(_FILE)
