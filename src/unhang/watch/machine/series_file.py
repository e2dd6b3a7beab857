"""``machine/series.jsonl``: one line a sample; older samples are in ``series.1.jsonl`` and those after it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from unhang.watch import private_files
from unhang.wire.documents.machine_series import FOLDER, SCHEMA

MAX_BYTES = 4 << 20
FILES = 4
"""Three hours of a machine of eight cards each."""


LAST_BYTES = 256 << 10
"""Of a sample that travels: some minutes of a machine of eight cards."""


class SeriesFile:
    """Never larger than ``FILES`` times ``MAX_BYTES``. A sampler that was started again goes on with what it finds."""

    def __init__(self, folder: Path, head: Mapping[str, Any], *, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder / FOLDER
        self._path = self._folder / "series.jsonl"
        self._head = {"schema": SCHEMA, **head}
        self._max_bytes = max_bytes

    def add(self, row: Mapping[str, Any]) -> None:
        """One sample. A folder that takes nothing is not worth an error."""
        line = _line(row)
        with suppress(OSError):
            size = self._path.stat().st_size if self._path.exists() else 0
            if size and size + len(line) > self._max_bytes:
                self._rotate()
                size = 0
            if not size:
                private_files.make_folder(self._folder)
                line = _line(self._head) + line
            private_files.append(self._path, line)

    def _rotate(self) -> None:
        for number in range(FILES - 1, 0, -1):
            older = self._folder / (f"series.{number - 1}.jsonl" if number > 1 else "series.jsonl")
            if older.exists():
                older.replace(self._folder / f"series.{number}.jsonl")


def is_series(path: Path) -> bool:
    """The newest file of samples."""
    return path.parent.name == FOLDER.name and path.name == "series.jsonl"


def is_rotated(path: Path) -> bool:
    """A file of samples that is full."""
    return path.parent.name == FOLDER.name and path.name.startswith("series.") and path.name != "series.jsonl"


def read_tail(path: Path) -> bytes:
    """The head and the last samples, so many as a sample needs. Raises OSError."""
    with path.open("rb") as file:
        head = file.readline(LAST_BYTES)
        file.seek(max(len(head), path.stat().st_size - LAST_BYTES))
        rest = file.read(LAST_BYTES)
    return head + (rest if len(head) + len(rest) >= path.stat().st_size else rest.partition(b"\n")[2])


def _line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
