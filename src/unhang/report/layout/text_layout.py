"""A sheet of styled lines no wider than asked for: hanging indents, commands that stay copyable, cropped code."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import IO

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text as Styled

from unhang.report.layout.console import Console
from unhang.report.layout.terminal import underlying_stream

INDENT = 2
_PLAIN = str.maketrans({"…": "...", "•": "-", "·": "|", "│": "|", "→": "->", "×": "x", "–": "-", "—": "-", "▸": ">"})
_WIDE = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
UNIT = re.compile(
    rf"[（《「【]*(?:[^\s{_WIDE}（《「【“]+|[{_WIDE}]|[“])[，。；：！？、）》」】”…]*\s*|\s+|[（《「【“]+"
)
"""What a line is not broken inside of: a word, or one Chinese character, each with the marks that belong to it."""


def width_of(file: IO[str]) -> int:
    """Columns to write for: the terminal's (at most 100), 80 elsewhere."""
    return min(100, Console(file=file).width) if file.isatty() else 80


class TextLayout:
    """Collects lines; every method adds at least one. ``width`` is in terminal cells."""

    def __init__(self, width: int) -> None:
        self.width = max(40, width)
        self.lines: list[Styled] = []
        self._measure = Console(width=self.width, file=io.StringIO(), color_system=None)

    def plain(self) -> str:
        """The sheet without colour."""
        return self._written(terminal=False)

    def print_to(self, file: IO[str]) -> None:
        """Write the sheet: colours on a terminal (``NO_COLOR`` is honoured), ASCII where ``file`` lacks a sign."""
        text = self._written(terminal=file.isatty())
        underlying_stream(file).write(_encodable(text, getattr(file, "encoding", None) or "utf-8"))
        file.flush()

    def _written(self, *, terminal: bool) -> str:
        # Console(no_color=None) reads NO_COLOR itself; lines are wrapped already, so rich must not wrap again.
        out = io.StringIO()
        console = Console(
            file=out, force_terminal=terminal, width=self.width, highlight=False, markup=False, emoji=False
        )
        for line in self.lines:
            console.print(line, soft_wrap=True)
        return out.getvalue()

    def heading(self, text: str, note: str = "") -> None:
        """A section's heading after a blank line; ``note`` stands beside it, dimmed."""
        if self.lines:
            self.lines.append(Styled())
        line = Styled(text, "bold cyan")
        if note:
            line.append("  " + note, "dim")
        self._add(line, 0, 0)

    def subheading(self, text: str) -> None:
        """A heading inside a section, without a blank line."""
        self._add(Styled(text, "bold"), INDENT, 0)

    def paragraph(
        self, text: str | Styled, *, indent: int = INDENT, style: str = "", lead: str = "", lead_style: str = "dim"
    ) -> None:
        """Wrapped text; ``lead`` (a bullet, a label) stands before the first line, the rest hangs under the text."""
        for number, part in enumerate(_split(text, style)):
            self._add(part, indent, cell_len(lead), lead if number == 0 else "", lead_style)

    def parts(self, parts: Iterable[str], *, indent: int = INDENT, style: str = "", between: str = " · ") -> None:
        """Several short things beside each other, broken between them where there is room for each."""
        lines: list[str] = []
        for part in parts:
            if lines and cell_len(f"{lines[-1]}{between}{part}") <= self.width - indent:
                lines[-1] += between + part
            else:
                lines.append(part)
        for line in lines:
            self.paragraph(line, indent=indent, style=style)

    def code(self, text: str, *, indent: int = INDENT, style: str = "") -> None:
        """Lines that are not wrapped but cropped: source code, log lines."""
        room = self.width - indent
        for line in text.split("\n"):
            shown = line if cell_len(line) <= room else set_cell_size(line, room - 1) + "…"
            self.lines.append(Styled((" " * indent + shown).rstrip(), style))

    def verbatim(self, text: str) -> None:
        """Lines to paste: neither wrapped, cropped nor indented (a here-document ends at the head of a line)."""
        self.lines.extend(Styled(line) for line in text.split("\n"))

    def command(self, text: str, *, indent: int = INDENT) -> None:
        """A command to copy, broken with backslashes at blanks outside quotes when it is too long."""
        for number, line in enumerate(_broken(text, self.width - indent - 2)):
            lead = "$ " if number == 0 else "  "
            self._add(Styled(line, "bold"), indent, 2, lead)

    def _add(self, text: Styled, indent: int, hang: int, lead: str = "", lead_style: str = "dim") -> None:
        room = max(10, self.width - indent - hang)
        wrapped = self._wrap(text, room) if text.plain else [Styled()]
        for number, part in enumerate(wrapped):
            part.rstrip()
            head = lead if number == 0 and lead else " " * hang
            self.lines.append(Styled.assemble(" " * indent, (head, lead_style), part))

    def _wrap(self, text: Styled, room: int) -> list[Styled]:
        if cell_len(text.plain) <= room or cell_len(text.plain) == len(text.plain):
            return list(text.wrap(self._measure, room, overflow="fold"))
        return list(text.divide(line_starts(text.plain, room)))


def line_starts(text: str, room: int) -> Iterator[int]:
    """Where lines of ``room`` cells begin. Rich breaks at blanks only, and Chinese has none."""
    used = 0
    for unit in UNIT.finditer(text):
        wide = cell_len(unit[0].rstrip())
        if used and used + wide > room:
            yield unit.start()
            used = 0
        start = unit.start()
        if wide > room:
            for part in chop_cells(unit[0], room)[:-1]:
                start += len(part)
                yield start
        used += cell_len(text[start : unit.end()])


def _encodable(text: str, encoding: str) -> str:
    """``text`` with stand-ins for the signs that ``encoding`` lacks (GBK has Chinese and bullets, and no arrow)."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        lacking = {sign: plain for sign, plain in _PLAIN.items() if not _can_encode(chr(sign), encoding)}
        return text.translate(lacking).encode(encoding, "replace").decode(encoding)
    except LookupError:
        return text.translate(_PLAIN).encode("ascii", "replace").decode("ascii")
    return text


def _can_encode(sign: str, encoding: str) -> bool:
    try:
        sign.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _split(text: str | Styled, style: str) -> list[Styled]:
    if isinstance(text, Styled):
        return [text]
    return [Styled(line, style) for line in text.split("\n")]


def _broken(command: str, room: int) -> list[str]:
    """``command`` as lines a shell joins again; a word longer than ``room`` stays whole."""
    if "\n" in command or cell_len(command) <= room:
        return command.split("\n")
    lines: list[str] = []
    for word in _words(command):
        if lines and cell_len(f"{lines[-1]} {word}") <= room - 2:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return [line + " \\" for line in lines[:-1]] + lines[-1:]


def _words(command: str) -> list[str]:
    """Words as they are spelt, quotes kept; the whole command when its quotes do not match."""
    lexer = shlex.shlex(command, posix=False, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return [command]
