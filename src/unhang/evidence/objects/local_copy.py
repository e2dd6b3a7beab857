"""A copy of what is wanted behind a URL, for readers that need a folder of this machine; it goes when they are done."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from unhang.errors import EvidenceError, ObjectError, UsageError
from unhang.evidence.objects.listing import FoundObject, find_objects
from unhang.evidence.objects.stores import shown_url
from unhang.evidence.objects.stream import ObjectsAhead
from unhang.evidence.read_limits import DEFAULT_LIMITS
from unhang.findings import Source, Unread

_PIECE = 1 << 20
Seen = Callable[[int, int, str], None]
"""Called with (bytes done, bytes in all, name of the file being fetched)."""


@dataclass(slots=True)
class LocalCopy:
    """Where the copy lies: a folder, or the one file that was named. ``name``: the URL as it may be shown."""

    place: Path
    name: str
    unread: list[Unread] = field(default_factory=list)


@contextmanager
def local_copy(
    url: str, wanted: Callable[[str, int], bool], seen: Seen = lambda _done, _all, _name: None
) -> Iterator[LocalCopy]:
    """What ``wanted(path below the URL, bytes)`` is of the files behind ``url``.

    Raises:
        UsageError: there is nothing.
        EvidenceError: what is there may not be listed.
    """
    listing, name = find_objects(url, DEFAULT_LIMITS, skipped=()), shown_url(url)
    if not listing.files and listing.unread:
        raise EvidenceError(f"{name} {listing.unread[0].reason}")
    if not listing.files:
        raise UsageError(f"{name} does not exist")
    inner = {file.key: PurePosixPath(file.name).relative_to(file.root) for file in listing.files}
    alone = len(listing.files) == 1 and listing.files[0].name == name
    files = [
        file
        for file in listing.files
        if ".." not in inner[file.key].parts and (alone or wanted(inner[file.key].as_posix(), file.size))
    ]
    with tempfile.TemporaryDirectory(prefix="unhang-") as folder:
        copy = LocalCopy(Path(folder, inner[listing.files[0].key]) if alone else Path(folder), name, listing.unread)
        _fetch(files, {key: Path(folder, path) for key, path in inner.items()}, copy.unread, seen)
        yield copy


def _fetch(files: list[FoundObject], places: dict[str, Path], unread: list[Unread], seen: Seen) -> None:
    ahead = ObjectsAhead(files, lambda _start: False)
    total, done = sum(max(0, file.size) for file in files), 0
    for file in files:
        place = places[file.key]
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with ahead.next() as stream, place.open("xb") as copied:
                shutil.copyfileobj(cast("BinaryIO", stream), copied, _PIECE)
        except ObjectError as error:
            unread.append(Unread(Source(file.name), str(error)))
        done += max(0, file.size)
        seen(min(done, total), total, file.name)
