"""What is read from a source: a good sample, or one that cannot be used and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from unhang.sentences import Text, say

FILE_BITS = 40
"""A place is the number of a file above this bit, and a byte, row or member number below it."""
MAX_SAMPLE_BYTES = 128 << 20
"""Bytes of the largest image or field that is taken: memory stays bounded whatever a row names."""

Fault = Literal[
    "columns", "encoding", "quotes", "line", "json", "caption", "path", "address", "missing", "no-file", "unreadable",
    "empty", "cut-short", "no-image", "too-large", "incomplete", "name", "archive", "changed",
]  # fmt: skip
FAULTS: dict[Fault, Text] = {
    "columns": say("the row has more or fewer columns than the header, or lacks one that is needed"),
    "encoding": say("the text is not in the encoding of the file"),
    "quotes": say("a quotation mark is opened and not closed"),
    "line": say("the line is too long, or contains a NUL"),
    "json": say("the line is not a JSON object"),
    "caption": say("no caption"),
    "path": say("no image path"),
    "address": say("the image is a web address, not a file"),
    "missing": say("the image does not exist"),
    "no-file": say("the image is not a regular file"),
    "unreadable": say("the image cannot be read"),
    "empty": say("the image is empty"),
    "cut-short": say("the image is truncated"),
    "no-image": say("the file is not an image of a known format"),
    "too-large": say("larger than 128 MiB"),
    "incomplete": say("a part is missing that other samples have"),
    "name": say("the name of a part is too long or empty"),
    "archive": say("the shard is damaged from here on"),
    "changed": say("was readable at first, but not when it was written"),
}


@dataclass(frozen=True, slots=True)
class Resume:
    """From where a source is looked at again: file number, byte/row/member, and the line that stands there."""

    file: int = 0
    at: int = 0
    line: int = 1


@dataclass(frozen=True, slots=True)
class GoodSample:
    """A sample that can be used; ``size`` is its bytes inside a shard."""

    place: int
    size: int
    resume: Resume


@dataclass(frozen=True, slots=True)
class BrokenSample:
    """A sample that is left out. ``line`` counts from 1: of a text file, a table's row, a shard's member."""

    fault: Fault
    file: str
    line: int
    detail: str = ""
    resume: Resume = field(default_factory=Resume)


Fields = dict[str, bytes]
"""Parts of a sample by their ending: ``jpg``, ``txt``."""


class SampleSource(Protocol):
    """A data set that can be looked at from any place and read at chosen ones."""

    def total_bytes(self) -> int:
        """Bytes of all its files."""

    def bytes_before(self, resume: Resume) -> int:
        """Bytes that were looked at when this place is reached; for progress."""

    def survey(self, start: Resume) -> Iterator[GoodSample | BrokenSample]:
        """Every sample from ``start`` on, in order; the images are opened, not decoded."""

    def take(self, places: Iterable[tuple[int, int]]) -> Iterator[Fields | BrokenSample]:
        """The samples at these (place, size), ascending within a run of them; one answer for each."""


def place_of(file: int, at: int) -> int:
    """One number for a place in one of several files."""
    return file << FILE_BITS | at


def split_place(place: int) -> tuple[int, int]:
    """File number, and byte, row or member number."""
    return place >> FILE_BITS, place & ((1 << FILE_BITS) - 1)


def packed_size(sizes: Iterable[int]) -> int:
    """Bytes of a sample with parts of these sizes in a tar file."""
    return sum(512 + (size + 511) // 512 * 512 for size in sizes)
