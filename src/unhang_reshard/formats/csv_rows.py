"""Rows of delimited text with their byte offsets. One broken row costs one row, not the rest of the file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from unhang.errors import UsageError
from unhang_reshard.formats.table_rows import LineRows, ReadOptions, Row, choose_columns
from unhang_reshard.samples import BrokenSample, Fault, Resume

LONGEST_LINE = 4 << 20
MAX_LINES = 64
"""Lines of one quoted row; beyond that its quotation mark was never closed."""
SEPARATORS = ("\t", ",", ";", "|")
SEPARATOR_NAMES = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class _RowFault(Exception):
    def __init__(self, fault: Fault, detail: str = "") -> None:
        self.fault, self.detail = fault, detail


class CsvRows(LineRows):
    """Delimited text files with one header each; the columns are those of the first."""

    def __init__(self, files: Sequence[Path], reading: ReadOptions) -> None:
        _check_encoding(reading.encoding)
        self.files = files
        utf8 = reading.encoding.lower().replace("_", "-") == "utf-8-sig"
        self._encoding = "utf-8" if utf8 else reading.encoding
        csv.field_size_limit(LONGEST_LINE * 2)
        self._separator, names = self._header(files[0], reading)
        self.columns = choose_columns(names, reading)

    def _header(self, path: Path, reading: ReadOptions) -> tuple[str, list[str]]:
        separators = [_separator(reading.separator)] if reading.separator else SEPARATORS
        with path.open("rb") as file:
            line = file.readline(LONGEST_LINE)
        if line[:2] in BOMS:
            raise UsageError(f"{path} is UTF-16", next_step=f"iconv -f utf-16 -t utf-8 {path} > {path.stem}.utf8.csv")
        if line[:2] == b"\x1f\x8b":
            raise UsageError(f"{path} is compressed", next_step=f"gunzip -k {path}")
        if not line.strip():
            raise UsageError(f"{path} has no header line")
        try:
            text = self._text(line, first=True)
            choices = {sep: next(csv.reader([text], delimiter=sep), []) for sep in separators}
        except _RowFault:
            raise UsageError(
                f"the header of {path} is not {self._encoding}", next_step="name its encoding: --encoding gb18030"
            ) from None
        except csv.Error as error:
            raise UsageError(f"the header of {path} cannot be read: {error}") from None
        for sep, names in choices.items():
            try:
                choose_columns(names, reading)
            except UsageError:
                continue
            return sep, names
        return max(choices.items(), key=lambda choice: len(choice[1]))

    def _header_of(self, file: BinaryIO) -> list[str]:
        try:
            return next(
                csv.reader([self._text(file.readline(LONGEST_LINE), first=True)], delimiter=self._separator), []
            )
        except (_RowFault, csv.Error):
            return []

    def _rows(self, file: BinaryIO, names: list[str], here: Resume) -> Iterator[Row | BrokenSample]:
        name = str(self.files[here.file])
        while True:
            line = file.readline(LONGEST_LINE)
            if not line:
                return
            after_first = here.at + len(line)
            if not line.strip(b"\r\n"):
                here = Resume(here.file, after_first, here.line + 1)
                continue
            taken = 1
            try:
                fields, taken = self._fields(file, line, len(names))
            except _RowFault as error:
                after_first += _skip_rest(file, line, after_first)
                following = Resume(here.file, after_first, here.line + 1)
                yield BrokenSample(error.fault, name, here.line, error.detail, following)
            else:
                following = Resume(here.file, file.tell() if taken > 1 else after_first, here.line + taken)
                yield Row(here.at, here.file, here.line, dict(zip(names, fields, strict=True)), following)
            here = following

    def _fields(self, file: BinaryIO, line: bytes, width: int) -> tuple[list[str], int]:
        """The row that begins with ``line``, and how many lines it has."""
        if len(line) >= LONGEST_LINE and not line.endswith(b"\n"):
            raise _RowFault("line")
        text = self._text(line)
        if '"' not in text:
            fields, lines = next(csv.reader([text], delimiter=self._separator), []), 1
        else:
            fields, lines = self._quoted(file, text)
        if len(fields) != width:
            raise _RowFault("columns", f"{len(fields)} / {width}")
        return fields, lines

    def _quoted(self, file: BinaryIO, text: str) -> tuple[list[str], int]:
        used = size = 0

        def lines() -> Iterator[str]:
            nonlocal used, size
            used = 1
            yield text
            while used < MAX_LINES and size < LONGEST_LINE:
                following = file.readline(LONGEST_LINE)
                if not following:
                    return
                used, size = used + 1, size + len(following)
                yield self._text(following)

        try:
            return next(csv.reader(lines(), delimiter=self._separator, strict=True)), used
        except (csv.Error, StopIteration, _RowFault):
            pass
        if used == 1:  # quotes inside the line that are not well-formed: read as spreadsheets and pandas read them
            try:
                return next(csv.reader([text], delimiter=self._separator)), 1
            except (csv.Error, StopIteration):
                pass
        raise _RowFault("quotes")

    def _text(self, line: bytes, *, first: bool = False) -> str:
        if first and line.startswith(b"\xef\xbb\xbf"):
            line = line[3:]
        if b"\0" in line:
            raise _RowFault("line")
        try:
            return line.decode(self._encoding)
        except UnicodeDecodeError as error:
            raise _RowFault("encoding", f"{self._encoding}: {line[error.start : error.start + 8]!r}") from None


def _skip_rest(file: BinaryIO, line: bytes, after_first: int) -> int:
    """Go to the end of the line that ``line`` begins; how many bytes were skipped."""
    file.seek(after_first)
    skipped = 0
    while not line.endswith(b"\n"):
        line = file.readline(LONGEST_LINE)
        if not line:
            break
        skipped += len(line)
    return skipped


def _separator(told: str) -> str:
    separator = SEPARATOR_NAMES.get(told, told)
    if len(separator) != 1:
        raise UsageError(f"a separator is one character, not {told!r}", next_step="--separator tab")
    return separator


def _check_encoding(encoding: str) -> None:
    try:
        plain = "a\n".encode(encoding)
    except LookupError:
        raise UsageError(f"unknown encoding {encoding!r}") from None
    if plain != b"a\n" and not encoding.lower().replace("_", "-").startswith("utf-8"):
        raise UsageError(
            f"{encoding} has no plain line ends", next_step=f"iconv -f {encoding} -t utf-8 FILE > FILE.utf8"
        )
