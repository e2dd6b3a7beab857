"""Every message at WARN or above that programs of jobs print, as templates (``*.tsv`` beside it, one file a program).

``python -m scripts.harvest`` takes them from releases of the programs; ``{}`` stands for what is filled in.
:func:`program_messages` says which one a line is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

from unhang.errors import KnowledgeError
from unhang.findings import Cause
from unhang.late_pattern import late_pattern

FOLDER = Path(__file__).parent
ROOT, ECHO, WRAPPER, NOTHING = "root", "echo", "wrapper", "nothing"
"""What a message is: it says what is wrong; another process failed or did not answer; it carries what another error
said; or it says nothing of a stall or a crash."""
WHILE_STARTING = "start"
"""A strength besides those of ``failure_language.toml``: words of a cause while ranks meet, later only an echo."""
COLUMNS = ("words", "class", "cause", "strength", "level", "releases", "place", "template")
TEXT_CHARS = 2000
FEWEST_WORDS = 5
"""Of a template: fewer ("Failed to load model") are said by programs of all kinds, and in questions."""
LEAST_OF_LINE = 0.5
"""Of the letters from where a template begins: of a line that says more, it is another program's sentence in ours."""
_WORD = late_pattern(r"[0-9a-z]+|[\u4e00-\u9fff]")
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

    def share_of(self, text: str) -> float:
        """How much of ``text`` its literal parts are: without a log's prefix in front of it, and without what it fills
        in at its end."""
        parts = [part for each in self.template.split(_PLACE) if (part := each.strip())]
        said = " ".join(text.split())
        begin = 0 if self.template.startswith(_PLACE) else said.find(parts[0])
        end = said.rfind(parts[-1]) + len(parts[-1]) if self.template.endswith(_PLACE) else len(said)
        return len("".join(parts)) / max(end - begin, 1)


def program_messages(text: str) -> tuple[TemplateRow, ...]:
    """:func:`find_templates`, where that is most of ``text`` and more than a few words."""
    rows = find_templates(text)
    few = not rows or len(_WORD.findall(rows[0].template.lower())) < FEWEST_WORDS
    return () if few or rows[0].share_of(text) < LEAST_OF_LINE else rows


@lru_cache(maxsize=8192)
def find_templates(text: str) -> tuple[TemplateRow, ...]:
    """The template whose literal parts stand in ``text`` in their order, the longest of several, as each program has it
    that prints it; empty where there is none."""
    said = " ".join(text[:TEXT_CHARS].split())
    index, best, most = _index(), list[tuple[str, str]](), ""
    for words in dict.fromkeys(word_pairs(said)):
        for program, row in index.get(words, ()):
            template = row[row.rindex("\t") + 1 :]
            if len(template) > len(most) and occurs_in(template, said):
                best, most = [], template
            if template == most:
                best.append((program, row))
    return tuple(row_of(program, row.split("\t")) for program, row in sorted(set(best)))


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
