"""Rows of JSON lines with their byte offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from unhang.errors import UsageError
from unhang_reshard.formats.table_rows import LineRows, ReadOptions, Row, choose_columns
from unhang_reshard.samples import BrokenSample, Resume

LONGEST_LINE = 16 << 20


class JsonRows(LineRows):
    """Files with one JSON object a line; the columns are those of the first object."""

    def __init__(self, files: Sequence[Path], reading: ReadOptions) -> None:
        self.files = files
        first = next((row for row in self.rows(Resume()) if isinstance(row, Row)), None)
        if first is None:
            raise UsageError(f"{files[0]} contains no line that is a JSON object")
        self.columns = choose_columns(list(first.values), reading)

    def _header_of(self, file: BinaryIO) -> list[str]:  # noqa: ARG002 - every row names its columns
        return []

    def _rows(self, file: BinaryIO, names: list[str], here: Resume) -> Iterator[Row | BrokenSample]:  # noqa: ARG002
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
