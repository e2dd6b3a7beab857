"""Samples of a table: the image a row names (or holds), its caption, and the other columns where they are wanted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from unhang_reshard.formats import images
from unhang_reshard.formats.table_rows import Row, Rows, caption_of, others_of
from unhang_reshard.prefetch import prefetch
from unhang_reshard.samples import BrokenSample, Fault, Fields, GoodSample, Resume, packed_size, place_of

ADDRESSES = ("http://", "https://", "s3://", "gs://", "hf://", "ftp://")


class ImageRows:
    """A table as a source. ``folders``: where relative paths are looked for, in this order."""

    def __init__(self, rows: Rows, folders: Sequence[Path]) -> None:
        self._rows, self._columns, self._folders = rows, rows.columns, [str(folder) for folder in folders]
        self._sizes = [path.stat().st_size for path in rows.files]

    def total_bytes(self) -> int:
        """Bytes of all its files."""
        return sum(self._sizes)

    def bytes_before(self, resume: Resume) -> int:
        """Bytes that were looked at; rows of a Parquet file are counted as if they were bytes."""
        return sum(self._sizes[: resume.file]) + resume.at

    def survey(self, start: Resume) -> Iterator[GoodSample | BrokenSample]:
        """Every row from ``start`` on, each image opened."""
        return prefetch(self._rows.rows(start), self._looked, weigh=_weight)

    def take(self, places: Iterable[tuple[int, int]]) -> Iterator[Fields | BrokenSample]:
        """The samples at these places, images read ahead."""
        listed = list(places)
        sizes = iter([size for _, size in listed])
        return prefetch(self._rows.rows_at(place for place, _ in listed), self._taken, weigh=lambda _: next(sizes, 0))

    def _looked(self, row: Row | BrokenSample) -> GoodSample | BrokenSample:
        if isinstance(row, BrokenSample):
            return row
        caption = caption_of(row, self._columns)
        if isinstance(caption, str):
            return self._broken(row, caption)
        sizes = [len(caption)]
        if self._columns.image is not None:
            found = self._image(row.values.get(self._columns.image), whole=False)
            if isinstance(found, tuple):
                return self._broken(row, *found)
            sizes.append(found.size)
        others = others_of(row, self._columns)
        sizes += [len(others)] if others is not None else []
        return GoodSample(place_of(row.file, row.at), packed_size(sizes), row.resume)

    def _taken(self, row: Row | BrokenSample) -> Fields | BrokenSample:
        if isinstance(row, BrokenSample):
            return row
        caption, fields = caption_of(row, self._columns), Fields()
        if isinstance(caption, str):
            return self._broken(row, "changed", caption)
        if self._columns.image is not None:
            found = self._image(row.values.get(self._columns.image), whole=True)
            if isinstance(found, tuple):
                return self._broken(row, "changed", f"{found[0]}: {found[1]}")
            fields[found.ending] = found.data
        others = others_of(row, self._columns)
        return fields | {"txt": caption} | ({"json": others} if others is not None else {})

    def _broken(self, row: Row, fault: Fault, detail: str = "") -> BrokenSample:
        return BrokenSample(fault, str(self._rows.files[row.file]), row.line, detail[:300], row.resume)

    def _image(self, value: Any, *, whole: bool) -> _Image | tuple[Fault, str]:
        """The image of a cell: bytes in it, a path, or what Hugging Face's Parquet files hold: both."""
        if isinstance(value, dict):
            value = value.get("bytes") or value.get("path")
        if isinstance(value, bytes):
            looked = images.check_bytes(value)
            return (looked.fault, "") if looked.fault else _Image(looked.ending, looked.size, value)
        if not isinstance(value, str) or not value.strip():
            return "path", ""
        name = value.strip().removeprefix("file://")
        if name.lower().startswith(ADDRESSES):
            return "address", name
        looked, data = images.ImageCheck(fault="missing"), b""
        for folder in self._folders:
            path = os.path.join(folder, name)  # noqa: PTH118 - a Path for every row is slow, and name may be anything
            looked, data = images.read_file(path) if whole else (images.check_file(path), b"")
            if looked.fault != "missing":
                break
        return (looked.fault, name) if looked.fault else _Image(looked.ending, looked.size, data)


def _weight(row: Row | BrokenSample) -> int:
    """Bytes that a row holds, as far as they count."""
    if isinstance(row, BrokenSample):
        return 0
    held = (value.get("bytes") if isinstance(value, dict) else value for value in row.values.values())
    return sum(len(value) for value in held if isinstance(value, str | bytes))


class _Image:
    def __init__(self, ending: str, size: int, data: bytes) -> None:
        self.ending, self.size, self.data = ending, size, data
