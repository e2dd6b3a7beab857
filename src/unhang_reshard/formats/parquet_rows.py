"""Rows of Parquet files, a few hundred at a time; needs pyarrow."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from unhang.errors import MissingExtra, UsageError
from unhang_reshard.formats.table_rows import ReadOptions, Row, choose_columns
from unhang_reshard.samples import BrokenSample, Resume, split_place

ROWS_AT_ONCE = 64
"""Rows may hold whole images."""


class ParquetRows:
    """Parquet files of one schema. A file that cannot be read is one broken sample at its row 1."""

    def __init__(self, files: Sequence[Path], reading: ReadOptions) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError as error:
            raise MissingExtra("Parquet files need pyarrow", next_step="pip install pyarrow") from error
        self._parquet: Any = parquet
        self._damaged = (OSError, ValueError, KeyError, ArrowException)
        self.files = files
        try:
            names = parquet.ParquetFile(files[0]).schema_arrow.names
        except self._damaged as error:
            raise UsageError(f"{files[0]} cannot be read as Parquet: {error}") from None
        self.columns = choose_columns(names, reading)

    def rows(self, start: Resume) -> Iterator[Row | BrokenSample]:
        """From ``start`` to the end of the last file."""
        for number in range(start.file, len(self.files)):
            yield from self._rows(number, start.at if number == start.file else 0)

    def rows_at(self, places: Iterable[int]) -> Iterator[Row | BrokenSample]:
        """One answer for each place."""
        for number, group in itertools.groupby(map(split_place, places), key=lambda place: place[0]):
            rows, reached = iter(()), -1  # type: Iterator[Row | BrokenSample], int
            for _, at in group:
                if at <= reached or reached < 0:
                    rows = self._rows(number, at)
                found = next((row for row in rows if isinstance(row, BrokenSample) or row.at == at), None)
                reached = at
                yield found or BrokenSample("changed", str(self.files[number]), at + 1)

    def _rows(self, number: int, start: int) -> Iterator[Row | BrokenSample]:
        path, at = self.files[number], start
        wanted = None if self.columns.keep_others else [n for n in (self.columns.image, self.columns.caption) if n]
        try:
            file = self._parquet.ParquetFile(path)
            before, groups = 0, []
            for group in range(file.num_row_groups):
                held = file.metadata.row_group(group).num_rows
                if before + held <= start:
                    before += held
                    continue
                groups.append(group)
            at = before
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, row_groups=groups, columns=wanted):
                if at + batch.num_rows > start:
                    for offset, values in enumerate(batch.to_pylist()):
                        if at + offset >= start:
                            here = at + offset
                            yield Row(here, number, here + 1, values, Resume(number, here + 1, here + 2))
                at += batch.num_rows
        except self._damaged as error:
            said = (str(error) or type(error).__name__).splitlines()[0]
            yield BrokenSample("archive", str(path), at + 1, said[:200], Resume(number + 1))
