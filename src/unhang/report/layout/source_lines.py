"""The lines around a place in the user's code, when the evidence holds the source."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.evidence.items import SourceFile
from unhang.facts.model import Facts
from unhang.findings import Where


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of a source file; ``hit`` marks the line asked for."""

    number: int
    text: str
    hit: bool


def source_lines(facts: Facts | None, where: Where | None, around: int = 2) -> tuple[SourceLine, ...]:
    """``around`` lines before and after ``where``; empty when the source or the line is not known."""
    if facts is None or where is None or where.line is None:
        return ()
    kept = source_file(facts, where.file)
    if kept is None:
        return ()
    lines = kept.text.splitlines()
    if not 1 <= where.line <= len(lines):
        return ()
    first, last = max(1, where.line - around), min(len(lines), where.line + around)
    shown = [SourceLine(n, lines[n - 1].expandtabs(4), n == where.line) for n in range(first, last + 1)]
    return tuple(_dedented(shown))


def source_file(facts: Facts, path: str) -> SourceFile | None:
    """The kept source ``path`` names: by its full spelling, else by its base name when only one file has it."""
    exact = facts.sources.get(path)
    if exact is not None:
        return exact
    base = path.rsplit("/", 1)[-1]
    same = [kept for known, kept in facts.sources.items() if known.rsplit("/", 1)[-1] == base]
    return same[0] if len(same) == 1 else None


def _dedented(lines: list[SourceLine]) -> list[SourceLine]:
    indents = [len(line.text) - len(line.text.lstrip()) for line in lines if line.text.strip()]
    cut = min(indents, default=0)
    return [SourceLine(line.number, line.text[cut:], line.hit) for line in lines]
