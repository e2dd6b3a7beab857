"""Samples of WebDataset shards that are there already; parts and endings are taken over unchanged."""

from __future__ import annotations

import itertools
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from unhang_reshard.formats.images import check_bytes
from unhang_reshard.samples import (
    MAX_SAMPLE_BYTES,
    BrokenSample,
    Fault,
    Fields,
    GoodSample,
    Resume,
    packed_size,
    place_of,
    split_place,
)

LONGEST_ENDING = 80
MAX_PARTS = 256
IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff")
_DAMAGED = (tarfile.TarError, OSError, EOFError, zlib.error, ValueError)


class _Sample:
    """Parts with one name, together no larger than an image may be."""

    def __init__(self, name: str, at: int) -> None:
        self.name, self.at = name, at
        self.fields: Fields = {}
        self.fault: Fault | None = None


class ShardFiles:
    """Tar files (also compressed ones) as a source."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self._sizes = [path.stat().st_size for path in files]
        self._needs: frozenset[str] | None = None

    def total_bytes(self) -> int:
        """Bytes of all its files."""
        return sum(self._sizes)

    def bytes_before(self, resume: Resume) -> int:
        """Bytes of the files before this one: inside a file the place is a count of samples."""
        return sum(self._sizes[: resume.file])

    def survey(self, start: Resume) -> Iterator[GoodSample | BrokenSample]:
        """Every sample from ``start`` on; the one before it in its file is read again."""
        for number in range(start.file, len(self.files)):
            for found in self._samples(number):
                if isinstance(found, BrokenSample):
                    yield found
                elif number > start.file or found.at >= start.at:
                    yield self._judged(number, found)

    def take(self, places: Iterable[tuple[int, int]]) -> Iterator[Fields | BrokenSample]:
        """The samples at these places; each file is read from its beginning up to the last place in it."""
        for number, group in itertools.groupby((split_place(place) for place, _ in places), key=lambda place: place[0]):
            found, reached = iter(()), -1  # type: Iterator[_Sample | BrokenSample], int
            for _, at in group:
                if at <= reached or reached < 0:
                    found = self._samples(number)
                reached = at
                sample = next((s for s in found if isinstance(s, BrokenSample) or s.at == at), None)
                if isinstance(sample, _Sample) and sample.fault is None:
                    yield sample.fields
                else:
                    yield BrokenSample("changed", str(self.files[number]), at + 1)

    def _judged(self, number: int, sample: _Sample) -> GoodSample | BrokenSample:
        resume, name = Resume(number, sample.at + 1, sample.at + 2), str(self.files[number])
        fault, detail = sample.fault, sample.name
        if fault is None and (lacking := self._needed() - _kinds(sample.fields)):
            fault, detail = "incomplete", f"{sample.name}: {', '.join(sorted(lacking))}"
        if fault is None:
            fault = next((f for f in map(_image_fault, sample.fields.items()) if f is not None), None)
        if fault is not None:
            return BrokenSample(fault, name, sample.at + 1, detail[:300], resume)
        return GoodSample(place_of(number, sample.at), packed_size(map(len, sample.fields.values())), resume)

    def _needed(self) -> frozenset[str]:
        """Kinds of parts that every sample must have: those of the first whole one of all."""
        if self._needs is None:
            every = (sample for number in range(len(self.files)) for sample in self._samples(number))
            whole = (s for s in every if isinstance(s, _Sample) and s.fault is None)
            self._needs = next((_kinds(s.fields) for s in whole), frozenset())
        return self._needs

    def _samples(self, number: int) -> Iterator[_Sample | BrokenSample]:
        """Samples of one file in order; damage ends it, and the sample it is in is not given."""
        path, sample, count = self.files[number], None, 0
        try:
            with path.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|*") as archive:
                for member in archive:
                    archive.members = []  # type: ignore[attr-defined]
                    name, ending = _split_name(member.name)
                    if not member.isreg() or not name or _is_note(member.name):
                        continue
                    if sample is None or sample.name != name:
                        if sample is not None:
                            yield sample
                        sample = _Sample(name, count)
                        count += 1
                    _add(sample, ending.lower(), member, archive.extractfile(member))
            if sample is not None:
                yield sample
        except _DAMAGED as error:
            said = (str(error) or type(error).__name__).splitlines()[0]
            yield BrokenSample("archive", str(path), count, said[:200], Resume(number + 1))


def _add(sample: _Sample, ending: str, member: tarfile.TarInfo, data: IO[bytes] | None) -> None:
    if sample.fault == "too-large":
        return
    if not ending or len(ending) > LONGEST_ENDING or ending.startswith("_") or ending in sample.fields:
        sample.fault = "name"
    elif member.size + sum(map(len, sample.fields.values())) > MAX_SAMPLE_BYTES or len(sample.fields) >= MAX_PARTS:
        sample.fault, sample.fields = "too-large", {}
    elif data is not None:
        sample.fields[ending] = data.read()


def _split_name(path: str) -> tuple[str, str]:
    """Name and ending as WebDataset splits them: at the first dot after the last slash."""
    folder, slash, name = path.rpartition("/")
    stem, _, ending = name.partition(".")
    return (folder + slash + stem, ending) if stem else ("", "")


def _is_note(path: str) -> bool:
    """``__name__`` members are notes about the shard, which WebDataset skips."""
    first = path.split("/", maxsplit=1)[0]
    return first.startswith("__") and first.endswith("__")


def _kinds(fields: Fields) -> frozenset[str]:
    return frozenset("image" if ending in IMAGES else ending for ending in fields)


def _image_fault(part: tuple[str, bytes]) -> Fault | None:
    ending, data = part
    return check_bytes(data).fault if ending in IMAGES else None
