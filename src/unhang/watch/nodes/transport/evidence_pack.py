"""The evidence one node took, packed for the leader, and unpacked there with care: names and sizes may be anything."""

from __future__ import annotations

import re
import zipfile
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from unhang.evidence.bounded_streams import STREAM_ERRORS
from unhang.findings import Unread
from unhang.watch import private_files
from unhang.watch.machine import series_file
from unhang.watch.sampling.bundle_files import EVIDENCE_FOLDERS, evidence_files
from unhang.wire.documents.bundle import read_manifest

MAX_BYTES = 48 << 20
"""Packed, of one node; the first kinds are kept."""
MAX_RAW = 1 << 30
MAX_FILES = 20_000
_MANIFEST = "bundle.json"
_NAME = re.compile(rf"bundle\.json|(?:{'|'.join(EVIDENCE_FOLDERS)})(?:/[\w-][\w.-]*){{1,4}}")
MIN_CLOCK_SHIFT_S = 1.0
"""Clocks closer than this are left as they are."""


def pack_evidence(folder: Path, target: Path) -> None:
    """Pack the evidence in ``folder`` into ``target``. Raises OSError where there is no room."""
    unfinished = target.with_name(f".{target.name}")
    private_files.write(unfinished, b"")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in (folder / _MANIFEST, *evidence_files(folder)):
            if unfinished.stat().st_size > MAX_BYTES:
                break
            with suppress(OSError):
                name = path.relative_to(folder).as_posix()
                if name == _MANIFEST:
                    archive.writestr(name, _manifest_to_send(path.read_bytes()))
                elif series_file.is_series(path):
                    archive.writestr(name, series_file.read_tail(path))
                else:
                    archive.write(path, name)
    unfinished.replace(target)


def _manifest_to_send(content: bytes) -> bytes:
    """The manifest without the program, which the leader has; what is too much to send is missed there by its name."""
    manifest = read_manifest(content, source=_MANIFEST)
    if isinstance(manifest, Unread):
        return content
    return replace(manifest, files=tuple(name for name in manifest.files if _NAME.fullmatch(name))).json()


def unpack_evidence(archive_path: Path, target: Path, *, ahead_s: float) -> bool:
    """Unpack into ``target``; False where it is no such archive. ``ahead_s``: of the clock it was taken by."""
    raw = 0
    try:
        with zipfile.ZipFile(archive_path) as archive:
            for info in archive.infolist()[:MAX_FILES]:
                raw += info.file_size
                if raw > MAX_RAW or not _NAME.fullmatch(info.filename) or ".." in info.filename:
                    continue
                with archive.open(info) as file:
                    content = file.read(info.file_size + 1)
                if info.filename == _MANIFEST:
                    content = _by_our_clock(content, ahead_s)
                private_files.write(target / info.filename, content)
    except STREAM_ERRORS:
        return False
    return (target / _MANIFEST).exists()


def _by_our_clock(content: bytes, ahead_s: float) -> bytes:
    """Times of the manifest, as this machine's clock would have said them."""
    manifest = read_manifest(content, source=_MANIFEST)
    if isinstance(manifest, Unread) or abs(ahead_s) < MIN_CLOCK_SHIFT_S:
        return content

    def ours(time_s: float | None) -> float | None:
        return None if time_s is None else time_s - ahead_s

    processes = tuple(replace(process, ended_s=ours(process.ended_s)) for process in manifest.processes)
    moved = {"stalled_since_s": ours(manifest.stalled_since_s), "taken_s": ours(manifest.taken_s)}
    return replace(manifest, processes=processes, clock_ahead_s=round(ahead_s, 3), **moved).json()
