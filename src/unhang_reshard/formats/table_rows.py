"""Tables whose rows name an image and its caption: which columns, and what a row's values mean."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from unhang.errors import UsageError
from unhang_reshard.samples import BrokenSample, Fault, Resume

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

    def rows(self, start: Resume) -> Iterator[Row | BrokenSample]:
        """From ``start`` to the end of the last file."""

    def rows_at(self, places: Iterable[int]) -> Iterator[Row | BrokenSample]:
        """One answer for each place."""


def choose_columns(
    names: Sequence[str], image: str | None, caption: str | None, *, text_only: bool
) -> tuple[str | None, str]:
    """The image's and the caption's column among those there are.

    Raises:
        UsageError: a column that was asked for, or any that will do, is not there.
    """
    found_caption = _pick(names, caption, CAPTION_NAMES, "--caption-key")
    return (None if text_only else _pick(names, image, IMAGE_NAMES, "--img-key")), found_caption


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
