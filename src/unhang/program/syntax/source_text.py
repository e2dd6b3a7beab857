"""A file of the user's as it is written, with its encoding and line ends, and the places of syntax in it."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from unhang.program.syntax.syntax_tree import call_name, dotted


@dataclass(frozen=True, slots=True, order=True)
class Replacement:
    """``text`` in the place of the characters ``start`` to ``end`` (excluded) of a file."""

    start: int
    end: int
    text: str


class SourceText:
    """A file of which places are known by line (from 1) and column as ``ast`` counts them: bytes of UTF-8.

    Raises:
        SyntaxError, UnicodeDecodeError: its bytes are no text in the encoding that it declares.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
        self.text = raw.decode(self._encoding)
        self.lines = io.StringIO(self.text, newline="").readlines()
        self._starts = (0, *accumulate(map(len, self.lines)))
        self.newline = "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"

    def start_of(self, line: int) -> int:
        """Where ``line`` begins; behind the last one, the end."""
        return self._starts[line - 1]

    def at(self, line: int, column: int) -> int:
        """The character at this place."""
        return self.start_of(line) + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """Where ``node`` begins and ends."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.at(node.lineno, node.col_offset), self.at(end_line, end_column)

    def with_replaced(self, replacements: Iterable[Replacement]) -> SourceText | None:
        """The file with these; None where two of them overlap."""
        ordered = sorted(set(replacements))
        if any(one.end > other.start for one, other in pairwise(ordered)):
            return None
        text = self.text
        for one in reversed(ordered):
            text = text[: one.start] + one.text + text[one.end :]
        return SourceText(text.encode(self._encoding))


def calls_named(nodes: Iterable[ast.AST], names: Iterable[str]) -> Iterator[ast.Call]:
    """Calls of one of ``names``, each as the source spells it or by its last part; of all where none is given."""
    wanted = set(names)
    for node in nodes:
        if isinstance(node, ast.Call) and (not wanted or {call_name(node), dotted(node.func)} & wanted):
            yield node
