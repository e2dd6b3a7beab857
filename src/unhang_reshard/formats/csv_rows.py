"""Rows of delimited text with their byte offsets. One broken row costs one row, not the rest of the file."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from unhang.errors import UsageError
from unhang_reshard.formats.table_rows import Row, TableColumns, choose_columns
from unhang_reshard.samples import BrokenSample, Fault, Resume, split_place

LONGEST_LINE = 4 << 20
MAX_LINES = 64
"""Lines of one quoted row; beyond that its quotation mark was never closed."""
SEPARATORS = ("\t", ",", ";", "|")
BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class _RowFault(Exception):
    def __init__(self, fault: Fault, detail: str = "") -> None:
        self.fault, self.detail = fault, detail


class CsvRows:
    """Delimited text files with one header each; the columns are those of the first."""

    def __init__(
        self,
        files: Sequence[Path],
        *,
        image: str | None,
        caption: str | None,
        text_only: bool,
        keep_others: bool,
        separator: str | None,
        encoding: str,
    ) -> None:
        _check_encoding(encoding)
        self.files = files
        self._encoding = "utf-8" if encoding.lower().replace("_", "-") == "utf-8-sig" else encoding
        csv.field_size_limit(LONGEST_LINE * 2)
        self._separator, names = self._header(files[0], separator, image, caption, text_only=text_only)
        found_image, found_caption = choose_columns(names, image, caption, text_only=text_only)
        self.columns = TableColumns(found_image, found_caption, keep_others)

    def _header(
        self, path: Path, separator: str | None, image: str | None, caption: str | None, *, text_only: bool
    ) -> tuple[str, list[str]]:
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
            choices = {
                sep: next(csv.reader([text], delimiter=sep), []) for sep in ([separator] if separator else SEPARATORS)
            }
        except _RowFault:
            raise UsageError(
                f"the header of {path} is not {self._encoding}", next_step="name its encoding: --encoding gb18030"
            ) from None
        except csv.Error as error:
            raise UsageError(f"the header of {path} cannot be read: {error}") from None
        for sep, names in choices.items():
            try:
                choose_columns(names, image, caption, text_only=text_only)
            except UsageError:
                continue
            return sep, names
        return max(choices.items(), key=lambda choice: len(choice[1]))

    def rows(self, start: Resume) -> Iterator[Row | BrokenSample]:
        """From ``start`` to the end of the last file."""
        for number in range(start.file, len(self.files)):
            here = start if number == start.file else Resume(number)
            with self.files[number].open("rb") as file:
                names = self._names(file)
                if here.at == 0:
                    here = Resume(number, file.tell(), 2)
                file.seek(here.at)
                yield from self._rows(file, names, here)

    def rows_at(self, places: Iterable[int]) -> Iterator[Row | BrokenSample]:
        """One answer for each place; the line is not known here and is 0."""
        for number, group in itertools.groupby(map(split_place, places), key=lambda place: place[0]):
            with self.files[number].open("rb") as file:
                names = self._names(file)
                for _, at in group:
                    if file.tell() != at:
                        file.seek(at)
                    yield next(self._rows(file, names, Resume(number, at, 0)), self._gone(number))

    def _gone(self, number: int) -> BrokenSample:
        return BrokenSample("changed", str(self.files[number]), 0)

    def _names(self, file: BinaryIO) -> list[str]:
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


def _check_encoding(encoding: str) -> None:
    try:
        plain = "a\n".encode(encoding)
    except LookupError:
        raise UsageError(f"there is no encoding {encoding!r}") from None
    if plain != b"a\n" and not encoding.lower().replace("_", "-").startswith("utf-8"):
        raise UsageError(
            f"{encoding} has no plain line ends", next_step=f"iconv -f {encoding} -t utf-8 FILE > FILE.utf8"
        )
