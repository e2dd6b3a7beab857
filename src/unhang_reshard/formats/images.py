"""Images as bytes: which kind, and whether the end is there. Nothing is decoded; a decoder is not needed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from unhang_reshard.samples import MAX_SAMPLE_BYTES, Fault

HEAD = 32
TAIL = 64
_PNG_END = b"IEND\xaeB`\x82"
_BARE_MARKERS = {0x01, *range(0xD0, 0xD9)}
"""JPEG markers without a length."""


@dataclass(frozen=True, slots=True)
class ImageCheck:
    """What a look at an image found: its ending (``jpg``) and bytes, or what is wrong with it."""

    ending: str = ""
    size: int = 0
    fault: Fault | None = None


class _NotUsable(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault


def check_file(path: str) -> ImageCheck:
    """Open, head, tail: never waits for a pipe and never reads a device."""
    try:
        with _opened(path) as (handle, size):
            head, tail = os.pread(handle, HEAD, 0), os.pread(handle, TAIL, max(0, size - TAIL))
            if _ending(head) == "jpg" and b"\xff\xd9" not in tail:
                return check_bytes(_whole(handle, size))
            return _judged(head, tail, size)
    except _NotUsable as error:
        return ImageCheck(fault=error.fault)


def read_file(path: str) -> tuple[ImageCheck, bytes]:
    """The image itself with the same judgement; a file that grows meanwhile is not read on."""
    try:
        with _opened(path) as (handle, size):
            data = _whole(handle, size)
            return check_bytes(data), data
    except _NotUsable as error:
        return ImageCheck(fault=error.fault), b""


def check_bytes(data: bytes) -> ImageCheck:
    """The same judgement about an image in memory."""
    if len(data) > MAX_SAMPLE_BYTES:
        return ImageCheck(size=len(data), fault="too-large")
    head, tail = data[:HEAD], data[-TAIL:]
    if _ending(head) == "jpg" and b"\xff\xd9" not in tail and not _jpeg_ends(data):
        return ImageCheck("jpg", len(data), "cut-short")
    return _judged(head, tail, len(data))


@contextmanager
def _opened(path: str) -> Iterator[tuple[int, int]]:
    """Handle and size of a regular file; every other trouble is ``_NotUsable``."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise _NotUsable("missing") from None
    except (OSError, ValueError):
        raise _NotUsable("unreadable") from None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise _NotUsable("no-file")
        if about.st_size > MAX_SAMPLE_BYTES:
            raise _NotUsable("too-large")
        yield handle, about.st_size
    except OSError:
        raise _NotUsable("unreadable") from None
    finally:
        os.close(handle)


def _whole(handle: int, size: int) -> bytes:
    parts, done = [], 0
    while done < size:
        part = os.pread(handle, size - done, done)
        if not part:
            break
        parts.append(part)
        done += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _judged(head: bytes, tail: bytes, size: int) -> ImageCheck:
    if size == 0:
        return ImageCheck(fault="empty")
    ending = _ending(head)
    if not ending:
        return ImageCheck(size=size, fault="no-image")
    return ImageCheck(ending, size, None if _has_end(ending, head, tail, size) else "cut-short")


def _ending(head: bytes) -> str:
    if head.startswith(b"\xff\xd8\xff"):
        return "jpg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if head.startswith((b"II*\0", b"MM\0*")):
        return "tif"
    if head[:2] == b"BM" and head[6:10] == b"\0\0\0\0":
        return "bmp"
    if head[4:8] == b"ftyp":
        return {b"avif": "avif", b"avis": "avif", b"heic": "heic", b"mif1": "heic"}.get(head[8:12], "")
    return ""


def _has_end(ending: str, head: bytes, tail: bytes, size: int) -> bool:
    if ending == "png":
        return _PNG_END in tail
    if ending == "webp":
        return size >= int.from_bytes(head[4:8], "little") + 8
    if ending == "bmp":
        return size >= int.from_bytes(head[2:6], "little")
    return True


def _jpeg_ends(data: bytes) -> bool:
    """Whether the picture has an end before what telephones append to it (a video, notes of the maker)."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return False
        marker = data[at + 1]
        if marker == 0xDA:
            return data.find(b"\xff\xd9", at) >= 0  # inside the picture's own data 0xFF is never followed by 0xD9
        at += (
            1 if marker == 0xFF else 2 if marker in _BARE_MARKERS else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        )
    return False
