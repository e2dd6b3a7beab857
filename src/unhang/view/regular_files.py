"""Read files of a run folder that somebody may have made: only regular ones, and only so much of them."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from unhang.wire.documents.document import DECODE_ERRORS

_Kind = TypeVar("_Kind")
MAX_DOCUMENT = 32 << 20


def open_regular(path: Path) -> BinaryIO:
    """A regular file, for reading; a pipe that nobody writes to would be waited for without end.

    Raises:
        OSError: it cannot be read, or is none.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "Not a regular file", str(path))


def read_limited(path: Path, most: int) -> bytes:
    """All of ``path``.

    Raises:
        OSError: it cannot be read, is no regular file, or is larger than ``most`` bytes.
    """
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content


def read_json_as(path: Path, kind: type[_Kind], most: int = MAX_DOCUMENT) -> _Kind | None:
    """A small JSON file as ``kind``; None where it is missing, too large or something else."""
    try:
        return msgspec.json.decode(read_limited(path, most), type=kind)
    except (OSError, *DECODE_ERRORS):
        return None
