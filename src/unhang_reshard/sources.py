"""From the words of the command line to a source: which kind, and that the files are there."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from unhang.errors import UsageError
from unhang_reshard.formats.table_rows import ReadOptions
from unhang_reshard.samples import SampleSource

SourceKind = Literal["csv", "json", "parquet", "shards"]
ENDINGS: dict[str, SourceKind] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json",
    ".parquet": "parquet", ".pq": "parquet", ".tar": "shards", ".tgz": "shards",
}  # fmt: skip
MAX_FILES = 1_000_000
_BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}")


def find_files(words: Sequence[str]) -> list[Path]:
    """Files that ``words`` name: paths, folders of shards, globs, ``shard-{000..019}.tar``.

    Raises:
        UsageError: one is not there, or they are no files.
    """
    files = [path for word in words for path in _expanded(word)]
    if not files:
        raise UsageError(
            "name a file to read: CSV, JSON lines, Parquet, or shards", next_step="unhang reshard data.csv"
        )
    for path in files:
        if not path.is_file():
            raise UsageError(f"there is no file {path}")
    return files


def _expanded(word: str) -> list[Path]:
    braces = _BRACES.search(word)
    if braces:
        first, last = braces[1], braces[2]
        if int(last) - int(first) > MAX_FILES:
            raise UsageError(f"{word} names more than a million files")
        numbers = (f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
        return [path for n in numbers for path in _expanded(word[: braces.start()] + n + word[braces.end() :])]
    path = Path(word)
    if path.is_dir():
        return sorted(p for p in path.iterdir() if _kind(p) in ("shards", "parquet"))
    if not path.exists() and glob.has_magic(word):
        return [Path(found) for found in sorted(glob.glob(word))]  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [path]


def _kind(path: Path) -> SourceKind | None:
    name = path.name.lower()
    return "shards" if name.endswith((".tar.gz", ".tar.xz", ".tar.bz2")) else ENDINGS.get(path.suffix.lower())


def open_source(files: Sequence[Path], reading: ReadOptions) -> SampleSource:
    """The source that reads ``files``.

    Raises:
        UsageError: a kind that is not known, several kinds at once, or a column that is not there.
        MissingExtra: Parquet without pyarrow.
    """
    kinds = {_kind(path) for path in files}
    if len(kinds) != 1:
        raise UsageError("the files are of several kinds; give one kind at a time")
    kind = kinds.pop()
    if kind is None:
        raise UsageError(
            f"{files[0]} ends in none of {', '.join(ENDINGS)}",
            next_step="rename it, or make a link with such an ending",
        )
    if kind == "shards":
        from unhang_reshard.formats.shard_files import ShardFiles

        return ShardFiles(files)
    return _table(kind, files, reading)


def _table(kind: SourceKind, files: Sequence[Path], reading: ReadOptions) -> SampleSource:
    from unhang_reshard.formats.image_rows import ImageRows

    if kind == "csv":
        from unhang_reshard.formats.csv_rows import CsvRows as Table
    elif kind == "json":
        from unhang_reshard.formats.json_rows import JsonRows as Table  # type: ignore[assignment]
    else:
        from unhang_reshard.formats.parquet_rows import ParquetRows as Table  # type: ignore[assignment]
    folders = [reading.images] if reading.images is not None else [Path.cwd(), files[0].absolute().parent]
    return ImageRows(Table(files, reading), folders)
