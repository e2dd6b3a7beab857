"""Write a data set anew as equal shards: look at everything, settle the sizes, write, and say what was done."""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unhang import __version__
from unhang.errors import UnhangError, UsageError
from unhang_reshard.formats.table_rows import ReadOptions
from unhang_reshard.samples import BrokenSample, Fields, SampleSource
from unhang_reshard.shard_sizes import EvenSizes, WhenUneven, even_sizes
from unhang_reshard.shard_writer import Shard, tar_writer, write_shard
from unhang_reshard.survey import LEFT_OUT, Progress, Survey, load_places, survey_source
from unhang_reshard.work_folder import MANIFEST, WorkFolder, write_whole

SCHEMA = "unhang.shards/1"
JOURNAL = "shards.jsonl"
SourceKind = Literal["csv", "json", "parquet", "shards"]
ENDINGS: dict[str, SourceKind] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json",
    ".parquet": "parquet", ".pq": "parquet", ".tar": "shards", ".tgz": "shards",
}  # fmt: skip
MAX_FILES = 1_000_000
_BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}")


@dataclass(frozen=True)
class ReshardOptions:
    """What was asked for."""

    ranks: tuple[int, ...]
    workers: int = 4
    when_uneven: WhenUneven = "drop"
    per_shard: int = 10_000
    strict: bool = False


@dataclass(frozen=True)
class Resharded:
    """What is there now."""

    folder: Path
    survey: Survey
    even: EvenSizes
    shards: tuple[Shard, ...]
    went_on: bool
    """Work of an earlier call was found and kept."""

    @property
    def changed(self) -> int:
        """Samples that could be read at first and no longer when they were written."""
        return sum(shard.changed for shard in self.shards)


def reshard(
    words: Sequence[str],
    folder: Path,
    order: ReshardOptions,
    reading: ReadOptions,
    *,
    again: bool = False,
    progress: Progress = lambda *_: None,
) -> Resharded:
    """Write the data set that ``words`` name into ``folder``.

    Raises:
        UsageError: nothing usable is there, or ``folder`` holds something else.
        UnhangError: the disk is full, or the source went away while it was read.
        MissingExtra: ``webdataset`` (or pyarrow for Parquet) is not installed.
    """
    tar_writer()
    files = find_files(words)
    place = WorkFolder(folder)
    with place.held(_call_document(files, order, reading), again=again) as went_on:
        done = place.finished()
        if done is not None:
            place.close()
            return _of_manifest(folder, done)
        source = open_source(files, reading)
        try:
            found = survey_source(source, place.work, progress)
            sizes = _settled_sizes(found, order, place)
            shards = tuple(_ShardsWriter(place, source, sizes).shards(progress))
            _finish(place, _call_document(files, order, reading), found, sizes, shards)
        except OSError as error:
            raise _stopped(error, folder) from error
        place.close()
    return Resharded(folder, found, sizes, shards, went_on)


def _call_document(files: Sequence[Path], order: ReshardOptions, reading: ReadOptions) -> dict[str, Any]:
    """What decides every byte that is written, as JSON gives it back."""
    abouts = [(path, path.stat()) for path in files]
    asked = {**asdict(order), **asdict(reading), "images": str((reading.images or Path.cwd()).absolute())}
    sources = [[str(path.absolute()), about.st_size, about.st_mtime_ns] for path, about in abouts]
    held: dict[str, Any] = json.loads(json.dumps({"sources": sources, **asked}))
    del held["strict"]
    return held


def _settled_sizes(found: Survey, order: ReshardOptions, place: WorkFolder) -> EvenSizes:
    log = place.work / LEFT_OUT
    if order.strict and found.left_out:
        raise UsageError(f"{found.left_out} samples cannot be used; nothing was written", next_step=f"less {log}")
    if not found.good:
        raise UsageError("no sample can be used; nothing was written", next_step=f"less {log}")
    return even_sizes(
        found.good,
        found.size,
        ranks=order.ranks,
        workers=order.workers,
        when_uneven=order.when_uneven,
        per_shard=order.per_shard,
    )


class _ShardsWriter:
    """Shard after shard, beginning with the first that is not there."""

    def __init__(self, place: WorkFolder, source: SampleSource, sizes: EvenSizes) -> None:
        self._place, self._source, self._sizes = place, source, sizes
        self._places: npt.NDArray[np.int64] = load_places(place.work, sizes.samples)
        self._spares_used = 0

    def shards(self, progress: Progress) -> Iterator[Shard]:
        done = list(self._kept())
        yield from done
        self._spares_used = sum(shard.spares for shard in done)
        total = int(self._places[:, 1].sum()) * self._sizes.written // self._sizes.samples
        written = sum(shard.bytes for shard in done)
        self._check_room(total - written)
        with (self._place.work / JOURNAL).open("a", encoding="utf-8") as journal:
            for number in range(len(done), self._sizes.shards):
                shard = self._write(number)
                journal.write(json.dumps(asdict(shard)) + "\n")
                journal.flush()
                os.fsync(journal.fileno())
                written += shard.bytes
                progress(written, max(total, written), shard.name)
                yield shard

    def _kept(self) -> Iterator[Shard]:
        """Shards of an earlier call, as far as the journal and the files agree."""
        path = self._place.work / JOURNAL
        lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
        kept = 0
        for number, line in enumerate(lines):
            try:
                shard = Shard(**json.loads(line))
                there = (self._place.folder / shard.name).stat().st_size == shard.bytes
            except (ValueError, TypeError, OSError):
                break
            if not there or shard.name != shard_name(number) or not line.endswith("\n"):
                break
            kept += 1
            yield shard
        if kept < len(lines):
            write_whole(path, "".join(lines[:kept]))

    def _check_room(self, needed: int) -> None:
        free = shutil.disk_usage(self._place.folder).free
        if needed > free:
            raise OSError(errno.ENOSPC, f"{needed >> 20} MiB are needed and {free >> 20} MiB free")

    def _write(self, number: int) -> Shard:
        first, spares_before, changed = number * self._sizes.per_shard, self._spares_used, 0

        def samples() -> Iterator[tuple[str, Fields]]:
            nonlocal changed
            for position, found in enumerate(self._source.take(self._picks(first)), first):
                changed += isinstance(found, BrokenSample)
                fields = self._instead(number, position) if isinstance(found, BrokenSample) else found
                yield f"{position:09d}", fields

        name = shard_name(number)
        shard = write_shard(self._place.folder / name, self._place.work / "shard.part", samples())
        return replace(shard, spares=self._spares_used - spares_before, changed=changed)

    def _picks(self, first: int) -> Iterator[tuple[int, int]]:
        for position in range(first, first + self._sizes.per_shard):
            place, size = self._places[position % self._sizes.samples]
            yield int(place), int(size)

    def _instead(self, number: int, position: int) -> Fields:
        """A sample that stayed out for evenness, else one that is in the same shard already."""
        while self._sizes.written + self._spares_used < self._sizes.samples:
            place, size = self._places[self._sizes.written + self._spares_used]
            self._spares_used += 1
            for found in self._source.take([(int(place), int(size))]):
                if not isinstance(found, BrokenSample):
                    return found
        for found in self._source.take(self._picks(number * self._sizes.per_shard)):
            if not isinstance(found, BrokenSample):
                return found
        raise UnhangError(
            f"none of the samples around number {position} can be read any more",
            next_step="check that the storage is there, then run the same command again",
        )


def shard_name(number: int) -> str:
    """``shard-000007.tar``."""
    return f"shard-{number:06d}.tar"


def _finish(place: WorkFolder, call: dict[str, Any], found: Survey, sizes: EvenSizes, shards: Sequence[Shard]) -> None:
    """The manifest comes last: where it is, everything is."""
    if (place.work / LEFT_OUT).exists():  # else a call that was killed just here has moved it
        (place.work / LEFT_OUT).replace(place.folder / LEFT_OUT)
    write_whole(place.folder / "sha256sums.txt", "".join(f"{shard.sha256}  {shard.name}\n" for shard in shards))
    write_whole(place.folder / "sizes.json", json.dumps({shard.name: shard.samples for shard in shards}, indent=1))
    manifest = {
        "schema": SCHEMA,
        "unhang": __version__,
        "format": "webdataset",
        "samples": sizes.written,
        "per_shard": sizes.per_shard,
        "good": sizes.samples,
        "left_out_to_be_even": sizes.left_out,
        "repeated_to_be_even": sizes.repeated,
        "ranks": list(sizes.ranks),
        "workers": sizes.workers,
        "even_for_ranks": list(sizes.even_for),
        "shards": [asdict(shard) for shard in shards],
        "survey": asdict(found),
        "call": call,
    }
    write_whole(place.folder / MANIFEST, json.dumps(manifest, indent=1))


def _of_manifest(folder: Path, manifest: dict[str, Any]) -> Resharded:
    try:
        shards = tuple(Shard(**shard) for shard in manifest["shards"])
        sizes = EvenSizes(
            tuple(manifest["ranks"]), manifest["workers"], manifest["good"], len(shards), manifest["per_shard"]
        )
        found = Survey(**manifest["survey"])
        gone = next((s.name for s in shards if (folder / s.name).stat().st_size != s.bytes), None)
    except FileNotFoundError as error:
        gone = Path(error.filename).name
    except (KeyError, TypeError):
        raise UsageError(
            f"{folder / MANIFEST} was not written by unhang reshard", next_step="name another folder: --output DIR"
        ) from None
    if gone is not None:
        raise UsageError(f"{gone} has changed since it was written", next_step="write them again with --overwrite")
    return Resharded(folder, found, sizes, shards, went_on=True)


def _stopped(error: OSError, folder: Path) -> UnhangError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UnhangError(
            f"no room in {folder}: {error.strerror}; what is written stays",
            next_step="make room, then run the same command again: it resumes where it stopped",
        )
    return UnhangError(
        f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}; what is written stays",
        next_step="run the same command again: it resumes where it stopped",
    )


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
            raise UsageError(f"no such file: {path}")
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
            next_step="rename it, or link to it with such an ending",
        )
    if kind == "shards":
        from unhang_reshard.formats.shard_files import ShardFiles

        return ShardFiles(files)
    return _table(kind, files, reading)


def _table(kind: SourceKind, files: Sequence[Path], reading: ReadOptions) -> SampleSource:
    from unhang_reshard.formats.image_rows import ImageRows

    folders = [reading.images] if reading.images is not None else [Path.cwd(), files[0].absolute().parent]
    if kind == "csv":
        from unhang_reshard.formats.csv_rows import CsvRows

        return ImageRows(CsvRows(files, reading), folders)
    if kind == "json":
        from unhang_reshard.formats.json_rows import JsonRows

        return ImageRows(JsonRows(files, reading), folders)
    from unhang_reshard.formats.parquet_rows import ParquetRows

    return ImageRows(ParquetRows(files, reading), folders)
