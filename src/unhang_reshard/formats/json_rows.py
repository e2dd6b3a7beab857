"""Rows of JSON lines with their byte offsets."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from unhang.errors import UsageError
from unhang_reshard.formats.table_rows import Row, TableColumns, choose_columns
from unhang_reshard.samples import BrokenSample, Resume, split_place

LONGEST_LINE = 16 << 20


class JsonRows:
    """Files with one JSON object a line; the columns are those of the first object."""

    def __init__(
        self, files: Sequence[Path], *, image: str | None, caption: str | None, text_only: bool, keep_others: bool
    ) -> None:
        self.files = files
        self.columns = TableColumns(image, caption or "")  # before the first row is known
        first = next((row for row in self.rows(Resume()) if isinstance(row, Row)), None)
        if first is None:
            raise UsageError(f"{files[0]} holds no line that is a JSON object")
        self.columns = TableColumns(
            *choose_columns(list(first.values), image, caption, text_only=text_only), keep_others
        )

    def rows(self, start: Resume) -> Iterator[Row | BrokenSample]:
        """From ``start`` to the end of the last file."""
        for number in range(start.file, len(self.files)):
            here = start if number == start.file else Resume(number)
            with self.files[number].open("rb") as file:
                file.seek(here.at)
                yield from self._rows(file, here)

    def rows_at(self, places: Iterable[int]) -> Iterator[Row | BrokenSample]:
        """One answer for each place; the line is not known here and is 0."""
        for number, group in itertools.groupby(map(split_place, places), key=lambda place: place[0]):
            with self.files[number].open("rb") as file:
                for _, at in group:
                    file.seek(at)
                    gone = BrokenSample("changed", str(self.files[number]), 0)
                    yield next(self._rows(file, Resume(number, at, 0)), gone)

    def _rows(self, file: BinaryIO, here: Resume) -> Iterator[Row | BrokenSample]:
        name = str(self.files[here.file])
        while line := file.readline(LONGEST_LINE):
            size, whole = len(line), line
            while len(whole) >= LONGEST_LINE and not whole.endswith(b"\n"):
                whole = file.readline(LONGEST_LINE)
                size += len(whole)
            following = Resume(here.file, here.at + size, here.line + 1)
            if line.strip():
                values = None if size != len(line) else _object(line)
                if values is None:
                    yield BrokenSample("line" if size != len(line) else "json", name, here.line, resume=following)
                else:
                    yield Row(here.at, here.file, here.line, values, following)
            here = following


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        values = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None
