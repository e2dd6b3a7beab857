"""The lines the findings cite, with what stands around them as far as the evidence holds it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.facts.model import Facts
from unhang.findings import Verdict
from unhang.report.layout.source_lines import source_file
from unhang.report.localizer import Localizer

AROUND_SOURCE, AROUND_LOG, MAX_CITED = 6, 4, 400


@dataclass(frozen=True, slots=True)
class CitedLine:
    """One line; ``gap`` says that lines before it are left out."""

    number: int
    text: str
    cited: bool
    gap: bool


@dataclass(frozen=True, slots=True)
class CitedFile:
    """A file with at least one cited line. Its lines' anchors are ``L{index}-{number}``."""

    index: int
    path: str
    lines: tuple[CitedLine, ...]


class CitedLines:
    """Collects what is cited and answers with anchors."""

    def __init__(self, verdict: Verdict, facts: Facts, localizer: Localizer, first: int = 0) -> None:
        self._localizer = localizer
        self._texts: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self._cited: defaultdict[str, set[int]] = defaultdict(set)
        for item in (one for finding in verdict.findings for one in finding.evidence):
            if item.source.line is not None:
                self._cite(item.source.path, item.source.line, item.text)
        self._add_logs(facts)
        self._add_sources(verdict, facts)
        # A line that stands alone says no more than the evidence that cites it.
        together = [path for path in self._cited if len(self._texts[path]) > len(self._cited[path])]
        self._index = {path: number for number, path in enumerate(together, first)}

    def anchor(self, path: str, line: int | None) -> str:
        """``L0-120`` when that line is embedded, else an empty string."""
        if line is None or path not in self._index or line not in self._cited[path]:
            return ""
        return f"L{self._index[path]}-{line}"

    def files(self) -> Iterator[CitedFile]:
        """Every file with its lines in order."""
        for path, index in self._index.items():
            yield CitedFile(index, self._localizer.line(path, 300), tuple(self._lines(path)))

    def _lines(self, path: str) -> Iterator[CitedLine]:
        before: int | None = None
        for number, text in sorted(self._texts[path].items()):
            gap = before is not None and number != before + 1
            shown = self._localizer.clean(text).replace("\n", " ")
            yield CitedLine(number, shown[:2000], number in self._cited[path], gap)
            before = number

    def _cite(self, path: str, line: int, text: str) -> None:
        if sum(map(len, self._cited.values())) < MAX_CITED:
            self._cited[path].add(line)
            self._texts[path][line] = text

    def _add_logs(self, facts: Facts) -> None:
        near = {
            path: {number for line in lines for number in range(line - AROUND_LOG, line + AROUND_LOG + 1)}
            for path, lines in self._cited.items()
        }
        for event in facts.events:
            path, line = event.source.path, event.source.line
            if line is not None and line in near.get(path, ()):
                self._texts[path].setdefault(line, event.text)

    def _add_sources(self, verdict: Verdict, facts: Facts) -> None:
        for path, line in list(_places(verdict)):
            kept = source_file(facts, path)
            if kept is None:
                continue
            lines = kept.text.splitlines()
            if not 1 <= line <= len(lines):
                continue
            self._cite(path, line, lines[line - 1])
            for number in range(max(1, line - AROUND_SOURCE), min(len(lines), line + AROUND_SOURCE) + 1):
                self._texts[path][number] = lines[number - 1].expandtabs(4)


def _places(verdict: Verdict) -> Iterator[tuple[str, int]]:
    for finding in verdict.findings:
        for where in (finding.where, finding.waiter_where):
            if where is not None and where.line is not None:
                yield where.file, where.line
