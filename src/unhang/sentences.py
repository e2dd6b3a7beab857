"""Sentences for people: a template and its values, put into words in the language of whoever reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence that can be said in several languages.

    ``template`` is the English sentence with ``{name}`` places and is also the key of a catalogue;
    ``values`` fills the places. Lists of ranks are written as ranges (``0-3, 7``), and with their noun by
    ``{name:who}`` (``rank 3``, ``ranks 0-3, 7``); ``{name:is|are}`` picks what fits their number, or
    a number's own (``{count} {count:call|calls}``).
    """

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return fill_template(self.template, self.values)

    def __hash__(self) -> int:  # values is a dict; equal texts have equal templates
        return hash(self.template)


def say(template: str, /, **values: Any) -> Text:
    """A localizable sentence: builds a :class:`Text`, prints nothing. ``template`` must be a literal, for the
    catalogues."""
    return Text(template, values)


class _RankList:
    """Ranks inside a sentence."""

    def __init__(self, ranks: tuple[int, ...], comma: str) -> None:
        self._ranks, self._comma = ranks, comma

    def __format__(self, spec: str) -> str:
        alone = len(self._ranks) == 1
        if "|" in spec:
            return spec.partition("|")[0 if alone else 2]
        ranges = rank_ranges(self._ranks).replace(", ", self._comma)
        if spec != "who":
            return format(ranges, spec)
        return f"rank {ranges}" if alone else f"ranks {ranges}"


_RANGES = re.compile(r"\d+(?:-\d+)?(?:, (?:\d+(?:-\d+)?|…(?: \(\d+\))?))+")


class _Number(int):
    """A number inside a sentence."""

    def __format__(self, spec: str) -> str:
        return spec.partition("|")[0 if self == 1 else 2] if "|" in spec else super().__format__(spec)


def rank_ranges(ranks: Iterable[int]) -> str:
    """Ranks as ranges: ``[0, 1, 2, 7]`` is ``0-2, 7``; two neighbours stay a list."""
    ordered = sorted(set(ranks))
    parts: list[str] = []
    start = 0
    while start < len(ordered):
        stop = start
        while stop + 1 < len(ordered) and ordered[stop + 1] == ordered[stop] + 1:
            stop += 1
        if stop - start >= 2:
            parts.append(f"{ordered[start]}-{ordered[stop]}")
        else:
            parts.extend(str(rank) for rank in ordered[start : stop + 1])
        start = stop + 1
    return ", ".join(parts)


def first_names(names: Sequence[str], most: int) -> str:
    """The first ``most`` of ``names``, and how many more: ``h1, h2 (+6)``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" (+{more})" if more > 0 else "")


def fill_template(template: str, values: Mapping[str, Any], comma: str = ", ") -> str:
    """``template`` with its places filled; values that are sequences of ints become rank ranges with ``comma``."""
    return template.format(**{name: _format_value(value, comma) for name, value in values.items()})


def _format_value(value: Any, comma: str) -> Any:
    if isinstance(value, list | tuple | set | frozenset) and all(isinstance(item, int) for item in value):
        return _RankList(tuple(value), comma)
    if isinstance(value, str) and _RANGES.fullmatch(value):
        return value.replace(", ", comma)
    return _Number(value) if type(value) is int else value


MAX_LETTERS = 500
_PART_OF_A_WORD = re.compile(r"\S+$")
_RANK = re.compile(r"\[[Rr]ank ?\d+\]")
_HEAD = re.compile(
    r"(?:\d{4}-\d\d-\d\d[- T][\d:.,]+ |[IWEF]\d{3,4} [\d:.]+ [^\[\]]*\] |(?:\S+:(?:\d+ )?)?\[[^\[\]]*\]:? ?"
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]{5,10} [\d:.,]+ |\S+\.(?:cc|cpp|h|cu):\d+ )+ *"
)
"""What stands before the message of a log line: its time, who wrote it and where."""


def shortened(text: str, most: int = MAX_LETTERS) -> str:
    """``text``; where it is longer than ``most``, its beginning up to the end of a word, and an ellipsis."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    whole = cut if text[most - 1].isspace() else _PART_OF_A_WORD.sub("", cut)
    return f"{(whole if whole.strip() else cut).rstrip()}…"


def message_of_line(line: str, most: int) -> str:
    """``line`` of a log; where it is longer than ``most``, an ellipsis stands for all before its message but the rank,
    and the rest is shortened."""
    head = _HEAD.match(line) if len(line) > most else None
    if head is None or head.end() == len(line):
        return shortened(line, most)
    rank = _RANK.search(head[0])
    message = f"… {line[head.end() :]}"
    return shortened(f"{rank[0]} {message}" if rank is not None else message, most)
