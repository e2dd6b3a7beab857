"""Tables whose rows name an image and its caption: which columns, and what a row's values mean."""

from __future__ import annotations

import itertools
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from unhang.errors import UsageError
from unhang_reshard.samples import BrokenSample, Fault, Resume, split_place

IMAGE_NAMES = (
    "filepath",
    "image",
    "img",
    "image_path",
    "img_path",
    "path",
    "file_path",
    "filename",
    "file_name",
    "jpg",
)
CAPTION_NAMES = ("title", "caption", "text", "txt", "prompt", "captions")
"""Tried in this order when no column is named; the first of each are OpenCLIP's defaults."""


@dataclass(frozen=True)
class ReadOptions:
    """How sources are read; every field decides what the shards hold."""

    image: str | None = None
    caption: str | None = None
    text_only: bool = False
    keep_others: bool = False
    separator: str | None = None
    encoding: str = "utf-8"
    images: Path | None = None


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Names of the columns that are used; ``image`` None: samples of text alone."""

    image: str | None
    caption: str
    keep_others: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row; ``resume`` is where the next begins."""

    at: int
    file: int
    line: int
    values: Mapping[str, Any]
    resume: Resume


class Rows(Protocol):
    """Rows of one or more files of one kind."""

    files: Sequence[Path]
    columns: TableColumns

    def rows(self, start: Resume) -> Iterator[Row | BrokenSample]:
        """From ``start`` to the end of the last file."""

    def rows_at(self, places: Iterable[int]) -> Iterator[Row | BrokenSample]:
        """One answer for each place."""


class LineRows:
    """Rows of text files, each found by its byte offset."""

    files: Sequence[Path]

    def rows(self, start: Resume) -> Iterator[Row | BrokenSample]:
        """From ``start`` to the end of the last file."""
        for number in range(start.file, len(self.files)):
            here = start if number == start.file else Resume(number)
            with self.files[number].open("rb") as file:
                names = self._header_of(file)
                if here.at == 0:
                    here = Resume(number, file.tell(), 2 if file.tell() else 1)
                file.seek(here.at)
                yield from self._rows(file, names, here)

    def rows_at(self, places: Iterable[int]) -> Iterator[Row | BrokenSample]:
        """One answer for each place; the line is not known here and is 0."""
        for number, group in itertools.groupby(map(split_place, places), key=lambda place: place[0]):
            gone = BrokenSample("changed", str(self.files[number]), 0)
            with self.files[number].open("rb") as file:
                names = self._header_of(file)
                for _, at in group:
                    if file.tell() != at:
                        file.seek(at)
                    yield next(self._rows(file, names, Resume(number, at, 0)), gone)

    @abstractmethod
    def _header_of(self, file: BinaryIO) -> list[str]:
        """The names of the columns, where ``file`` begins with them; it is read up to its first row."""

    @abstractmethod
    def _rows(self, file: BinaryIO, names: list[str], here: Resume) -> Iterator[Row | BrokenSample]:
        """The rows of ``file`` from ``here`` on, where it stands."""


def choose_columns(names: Sequence[str], reading: ReadOptions) -> TableColumns:
    """The image's and the caption's column among those there are.

    Raises:
        UsageError: a column that was asked for, or any that will do, is not there.
    """
    caption = _pick(names, reading.caption, CAPTION_NAMES, "--caption-key")
    image = None if reading.text_only else _pick(names, reading.image, IMAGE_NAMES, "--img-key")
    return TableColumns(image, caption, reading.keep_others)


def _pick(names: Sequence[str], asked: str | None, usual: Sequence[str], option: str) -> str:
    for name in (asked,) if asked else usual:
        if name in names:
            return name
    shown = ", ".join(repr(name[:40]) for name in names[:12])
    what = f"no column {asked!r}" if asked else f"none of the usual columns {', '.join(usual[:4])}, …"
    raise UsageError(f"there is {what}; there are: {shown}", next_step=f"name the column: {option} NAME")


def caption_of(row: Row, columns: TableColumns) -> bytes | Fault:
    """The caption as it is stored."""
    value = row.values.get(columns.caption)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value != value:
        return "caption"
    text = str(value).strip()
    return text.encode("utf-8", "replace") if text else "caption"


def others_of(row: Row, columns: TableColumns) -> bytes | None:
    """All other columns as JSON, where they are wanted."""
    if not columns.keep_others:
        return None
    used = {columns.image, columns.caption}
    others = {name: value for name, value in row.values.items() if name not in used}
    return json.dumps(others, ensure_ascii=False, sort_keys=True, default=str).encode("utf-8", "replace")
