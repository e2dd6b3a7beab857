"""The members of archives, streamed: nothing is written to disk, nothing leaves the archive's own folder.

A member is handed out with a stream that is valid until the next one is asked for.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import re
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from unhang.errors import ArchiveError, ObjectError
from unhang.evidence.bounded_streams import STREAM_ERRORS, BudgetedStream, TolerantStream, UnpackBudget, read_head
from unhang.evidence.format_detection import HEAD_BYTES, FileKind, detect_format
from unhang.evidence.read_limits import ReadLimits
from unhang.findings import Source, Unread

_HEADER_LIMIT = 1 << 20


@dataclass(slots=True)
class ArchiveMember:
    """One file in an archive. ``name`` is its path inside; ``stream`` gives its unpacked bytes."""

    name: str
    size: int
    stream: BinaryIO


def unpack(
    stream: BinaryIO, *, name: str, size: int, limits: ReadLimits, budget: UnpackBudget
) -> Iterator[ArchiveMember | Unread]:
    """The members of the archive in ``stream`` (seekable, ``size`` bytes packed), refusals among them.

    Never raises for what is in the archive; ``budget`` bounds what all archives together may unpack to.
    """
    allowed = max(limits.ratio_floor, size * limits.ratio)
    own = UnpackBudget(allowed, f"unpacks to more than {limits.ratio} times its size", budget)
    head, trouble = read_head(stream, HEAD_BYTES)
    stream.seek(0)
    decision = detect_format(head, name)
    if trouble:
        yield Unread(Source(name), trouble)
    elif decision.kind is FileKind.ZIP:
        yield from _guarded(name, _zip(stream, name, limits, own))
    elif decision.kind is FileKind.TAR:
        yield from _guarded(name, _tar(stream, name, limits, own))
    else:
        yield from _guarded(name, _compressed(stream, decision.label, name, limits, own))


def _guarded(name: str, members: Iterator[ArchiveMember | Unread]) -> Iterator[ArchiveMember | Unread]:
    try:
        yield from members
    except (ArchiveError, ObjectError) as error:
        yield Unread(Source(name), f"{error}; what came before that was read")
    except STREAM_ERRORS as error:
        detail = str(error) or type(error).__name__
        yield Unread(Source(name), f"is damaged or cut short ({detail}); what came before that was read")


def _compressed(
    stream: BinaryIO, label: str, name: str, limits: ReadLimits, budget: UnpackBudget
) -> Iterator[ArchiveMember | Unread]:
    """A compressed tar, or one compressed file (``job.log.gz``)."""
    plain = cast("BinaryIO", BudgetedStream(_decompressor(stream, label), budget))
    head, trouble = read_head(plain, HEAD_BYTES)
    whole = TolerantStream(plain, head)
    if trouble:
        whole.trouble = trouble
    if detect_format(head, name).kind is FileKind.TAR:
        try:
            yield from _tar(cast("BinaryIO", whole), name, limits, None)
        except tarfile.TarError:
            if not whole.trouble:  # else the end it misses is only where the reading was stopped
                raise
    else:
        inner = re.sub(r"\.(gz|xz|bz2|zst)$", "", name.rsplit("/", 1)[-1].rsplit("!", 1)[-1], flags=re.IGNORECASE)
        yield ArchiveMember(inner, 0, cast("BinaryIO", whole))
    if whole.trouble:
        yield Unread(Source(name), f"{whole.trouble}; what came before that was read")


def _decompressor(stream: BinaryIO, label: str) -> BinaryIO:
    if label == "gzip":
        return cast("BinaryIO", gzip.GzipFile(fileobj=stream))
    if label == "xz":
        return cast("BinaryIO", lzma.LZMAFile(stream))
    if label == "bzip2":
        return cast("BinaryIO", bz2.BZ2File(stream))
    return _zstd(stream)


def _zstd(stream: BinaryIO) -> BinaryIO:
    for module, name in (("compression.zstd", "ZstdFile"), ("backports.zstd", "ZstdFile"), ("pyzstd", "ZstdFile")):
        try:
            opened: BinaryIO = getattr(importlib.import_module(module), name)(stream)
        except ImportError:
            continue
        return opened
    raise ArchiveError(
        "is compressed with zstd, which this Python cannot decompress; decompress it first: zstd -d FILE"
    )


class _SmallHeaders(tarfile.TarInfo):
    """Refuses extended headers that would be read into memory whole."""

    def _proc_member(self, archive: Any) -> Any:
        extended = self.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
        if (
            extended or self.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
        ) and self.size > _HEADER_LIMIT:
            raise tarfile.ReadError("an extended header is far too large")
        return super()._proc_member(archive)  # type: ignore[misc]


def _tar(
    stream: BinaryIO, name: str, limits: ReadLimits, budget: UnpackBudget | None
) -> Iterator[ArchiveMember | Unread]:
    source = cast("BinaryIO", BudgetedStream(stream, budget)) if budget is not None else stream
    with tarfile.open(fileobj=source, mode="r|", tarinfo=_SmallHeaders) as archive:
        for count, info in enumerate(archive):
            # members stay listed in the archive object otherwise: memory that grows with a hostile member count
            archive.members = []  # type: ignore[attr-defined]
            if count >= limits.members:
                yield _too_many(name, limits)
                return
            if info.isdir():
                continue
            refusal = _tar_refusal(info)
            if refusal:
                yield Unread(Source(f"{name}!{info.name[:500]}"), refusal)
                continue
            opened = archive.extractfile(info)
            if opened is not None:
                yield ArchiveMember(_clean(info.name), info.size, cast("BinaryIO", opened))


def _tar_refusal(info: tarfile.TarInfo) -> str:
    if leaves_folder(info.name):
        return _LEAVES_FOLDER
    if info.issym() or info.islnk():
        return "is a link inside the archive; links are not followed"
    if not info.isreg():
        return "is not a file (a device or pipe in an archive)"
    return "is a sparse file inside the archive; unpack it first" if info.issparse() else ""


def _zip(stream: BinaryIO, name: str, limits: ReadLimits, budget: UnpackBudget) -> Iterator[ArchiveMember | Unread]:
    with zipfile.ZipFile(stream) as archive:
        for count, info in enumerate(archive.infolist()):
            if count >= limits.members:
                yield _too_many(name, limits)
                return
            if not info.filename:
                yield Unread(Source(name), "holds an entry without a name")
                continue
            if info.is_dir():
                continue
            refusal = _zip_refusal(info)
            if refusal:
                yield Unread(Source(f"{name}!{info.filename[:500]}"), refusal)
                continue
            yield from _zip_member(archive, info, name, budget)


def _zip_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, budget: UnpackBudget
) -> Iterator[ArchiveMember | Unread]:
    try:
        opened = archive.open(info)
    except STREAM_ERRORS as error:
        yield Unread(Source(f"{name}!{info.filename[:500]}"), f"is damaged ({error or type(error).__name__})")
        return
    with closing(opened):
        yield ArchiveMember(
            _clean(info.filename), info.file_size, cast("BinaryIO", BudgetedStream(cast("BinaryIO", opened), budget))
        )


def _zip_refusal(info: zipfile.ZipInfo) -> str:
    if leaves_folder(info.filename):
        return _LEAVES_FOLDER
    if info.flag_bits & 0x1:
        return "is encrypted; unpack the archive with its password first"
    return (
        "is a link inside the archive; links are not followed"
        if (info.external_attr >> 16) & 0o170000 == 0o120000
        else ""
    )


_LEAVES_FOLDER = "names a path outside the archive's own folder; refused"


def leaves_folder(member: str) -> bool:
    """Whether a member's path is absolute or climbs out of its folder (Windows spellings too)."""
    path = member.replace("\\", "/")
    return path.startswith("/") or re.match(r"[A-Za-z]:", path) is not None or ".." in path.split("/")


def _clean(member: str) -> str:
    return "/".join(part for part in member.split("/") if part not in ("", "."))


def _too_many(name: str, limits: ReadLimits) -> Unread:
    return Unread(Source(name), f"holds more than {limits.members:,} members; the rest was left unread")
