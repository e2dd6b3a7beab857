"""Every message at WARN or above that programs of jobs print, as templates (``*.tsv`` beside it, one file a program).

``python -m scripts.harvest`` takes them from releases of the programs; ``{}`` stands for what is filled in.
:func:`find_template` says which one a line is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

from unhang.errors import KnowledgeError
from unhang.findings import Cause

FOLDER = Path(__file__).parent
ROOT, ECHO, WRAPPER, NOTHING = "root", "echo", "wrapper", "nothing"
"""What a message is: it says what is wrong; another process failed or did not answer; it carries what another error
said; or it says nothing of a stall or a crash."""
WHILE_STARTING = "start"
"""A strength besides those of ``failure_language.toml``: words of a cause while ranks meet, later only an echo."""
COLUMNS = ("words", "class", "cause", "strength", "level", "releases", "place", "template")
TEXT_CHARS = 2000
_WORD = re.compile(r"[0-9a-z]+|[\u4e00-\u9fff]")
_PLACE = "{}"


@dataclass(frozen=True, slots=True)
class TemplateRow:
    """One message. ``level``: that of the log, the kind of warning or exception, or ``printed`` where only a compiled
    file holds it. ``releases``: the first and last of those read that have it; ``place``: file and function."""

    program: str
    kind: str
    cause: Cause | None
    strength: str
    level: str
    releases: str
    place: str
    template: str


@lru_cache(maxsize=8192)
def find_template(text: str) -> TemplateRow | None:
    """The template whose literal parts stand in ``text`` in their order, the longest of several; else None."""
    said = " ".join(text[:TEXT_CHARS].split())
    index, best, most = _index(), None, 0
    for words in dict.fromkeys(word_pairs(said)):
        for program, row in index.get(words, ()):
            template = row[row.rindex("\t") + 1 :]
            if len(template) > most and occurs_in(template, said):
                best, most = (program, row), len(template)
    return None if best is None else row_of(best[0], best[1].split("\t"))


def occurs_in(template: str, text: str) -> bool:
    """Whether the literal parts of ``template`` stand in ``text`` in their order."""
    at = 0
    for part in map(str.strip, template.split(_PLACE)):
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def word_pairs(text: str) -> Iterator[str]:
    """Each two words of ``text`` that stand side by side, in lower case."""
    return map(" ".join, pairwise(_WORD.findall(text.lower())))


def literal_pairs(template: str) -> Iterator[str]:
    """The :func:`word_pairs` of every text that the template fits: those of its literal parts, without words that
    something filled in may make longer."""
    parts = template.split(_PLACE)
    for number, part in enumerate(parts):
        words = list(_WORD.finditer(part.lower()))
        if number and words and words[0].start() == 0:
            del words[0]
        if number < len(parts) - 1 and words and words[-1].end() == len(part):
            del words[-1]
        yield from (f"{one[0]} {other[0]}" for one, other in pairwise(words))


@cache
def _index() -> dict[str, list[tuple[str, str]]]:
    """(program, row as it is written) by the two words under which it is looked for."""
    index: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(FOLDER.glob("*.tsv")):
        program = path.stem
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line and line[0] != "#":
                words, _, row = line.partition("\t")
                index.setdefault(words, []).append((program, row))
    return index


def row_of(program: str, columns: Sequence[str]) -> TemplateRow:
    """The row that stands in ``columns``, without the words. Raises :class:`KnowledgeError` where it is none."""
    if len(columns) != len(COLUMNS) - 1:
        raise KnowledgeError(f"templates/{program}.tsv: {' | '.join(columns)}: not {len(COLUMNS)} columns")
    kind, cause, *others = columns
    return TemplateRow(program, kind, Cause(cause) if cause else None, *others)
