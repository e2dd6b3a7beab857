"""Known incidents that look like what is seen now, and incidents that hold the words somebody asks for.

Likeness is BM25 (Robertson and Spärck Jones, with their usual constants) over the words of an incident's signs and of
what happened, and over what is known of its situation, each thing of which counts as one word. Nothing is random, and
equals come in the order of their ids. Of a long question only the rarest words count, as many as an incident has:
every further word of a log would add likeness to something.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from unhang.knowledge.known_incidents.incidents import Incident, StallSituation, incidents

MIN_SIMILARITY = 20.0
"""Likeness below which nothing is shown. Leaving each incident out in turn and asking with its signs and situation, at
least six of ten incidents above it are of the same cause (``docs/benchmarks.md`` has the curve)."""
MIN_WORDS = 3
"""Fewer words cannot reach the floor, so nothing is counted for them."""
MAX_SHOWN = 3
MAX_QUERY_WORDS = 24
"""Words of a question that count, the rarest first: the signs and the situation of an incident have about as many."""
MAX_WORD_SHARE = 0.1
"""Words that stand together in more than this part of the library tell nothing about a question."""
_TERM_WEIGHT, _LENGTH_WEIGHT = 1.2, 0.75
_KEYS = ("phase", "after", "operation", "backend", "nodes")
_WORD = re.compile(r"[a-z0-9]+(?:[_-][a-z0-9]+)*")
_ENDING = re.compile(r"(?:ing|ed|es|s|e)$")


def similar_incidents(situation: StallSituation, words: str) -> list[Incident]:
    """At most three incidents that look like ``words`` in ``situation``, the most alike first; often none.

    ``words`` are what is seen: messages, signs, a headline.
    """
    if len({*_words(words), *_known(situation)}) < MIN_WORDS:
        return []
    return [row for score, row in incidents_by_similarity(situation, words)[:MAX_SHOWN] if score >= MIN_SIMILARITY]


def incidents_with_words(text: str) -> list[Incident]:
    """At most three incidents that hold every word of ``text``, the newest; none where words so common mean nothing."""
    asked = set(_words(text))
    held = [row for row in incidents() if asked and _holds(row, asked)]
    if len(held) > MAX_WORD_SHARE * len(incidents()):
        return []
    return sorted(held, key=lambda row: (-row.year, row.id))[:MAX_SHOWN]


def incidents_by_similarity(
    situation: StallSituation, words: str, among: Sequence[Incident] | None = None
) -> list[tuple[float, Incident]]:
    """Every incident with its likeness, the most alike first; ``among`` replaces the library."""
    index = _library_index() if among is None else _Index(among)
    scores = index.scores({*_words(words), *_known(situation)})
    return sorted(((score, row) for row, score in scores), key=lambda pair: (-pair[0], pair[1].id))


class _Index:
    """The words of some incidents, counted."""

    def __init__(self, rows: Sequence[Incident]) -> None:
        self._rows = [(row, Counter([*_seen_words(row), *_known(row)])) for row in rows]
        self._in_rows = Counter(word for _, counts in self._rows for word in counts)
        self._mean_length = sum(counts.total() for _, counts in self._rows) / max(len(self._rows), 1)

    def scores(self, asked: Iterable[str]) -> list[tuple[Incident, float]]:
        met = sorted(filter(self._in_rows.__contains__, asked), key=lambda word: (self._in_rows[word], word))
        rarity = {word: self._rarity(word) for word in met[:MAX_QUERY_WORDS]}
        return [(row, self._score(counts, rarity)) for row, counts in self._rows]

    def _rarity(self, word: str) -> float:
        held = self._in_rows[word]
        return math.log(1 + (len(self._rows) - held + 0.5) / (held + 0.5))

    def _score(self, counts: Counter[str], rarity: dict[str, float]) -> float:
        length = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * counts.total() / self._mean_length
        return sum(
            weight * counts[word] * (_TERM_WEIGHT + 1) / (counts[word] + _TERM_WEIGHT * length)
            for word, weight in rarity.items()
        )


@cache
def _library_index() -> _Index:
    return _Index(incidents())


def _seen_words(row: Incident) -> list[str]:
    return _words(" ".join((*row.signs, row.happened)))


def _holds(row: Incident, asked: set[str]) -> bool:
    text = " ".join((*row.signs, row.happened, row.fixed, row.cause.value, row.operation, row.backend, *row.framework))
    pressed = text.casefold().replace("_", "").replace("-", "")
    return all(word in pressed for word in asked) and asked <= set(_words(text))  # the first is quick, and seldom true


def _known(situation: StallSituation) -> list[str]:
    known = [f"{key}={value}" for key in _KEYS if (value := getattr(situation, key)) != "unknown"]
    return known + [f"framework={name}" for name in situation.framework]


def _words(text: str) -> list[str]:
    """The words of ``text`` without case, hyphens, common endings and long numbers: ``ALL_REDUCE`` is ``allreduce``."""
    whole = (word.replace("_", "").replace("-", "") for word in _WORD.findall(text.casefold()))
    return [
        _ENDING.sub("", word) if len(word) > 4 else word
        for word in whole
        if len(word) > 1 and not (word.isdigit() and len(word) > 4)
    ]
