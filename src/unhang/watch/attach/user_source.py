"""The user's source files around the frames, copied as evidence while they are what the job runs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from unhang.evidence.items import StackDump
from unhang.knowledge.libraries import is_library_file, is_unknown_package
from unhang.watch import private_files
from unhang.watch.attach.machine import as_seen_by

FILES, FILE_BYTES = 200, 1 << 20


def keep_source(seen: Iterable[tuple[int, StackDump]], folder: Path) -> dict[str, str]:
    """Copy every user file that a frame of ``(pid, stack)`` names to ``folder/source``. Returns what the manifest says
    of it: ``source_root`` and ``source_prefix``."""
    texts: dict[str, bytes] = {}
    for pid, dump in seen:
        for path in _user_files(dump):
            if path not in texts and len(texts) < FILES:
                text = _read(as_seen_by(pid, path))
                if text is not None:
                    texts[path] = text
    prefix = os.path.commonpath([str(PurePosixPath(path).parent) for path in texts]) if texts else "/"
    for path, text in texts.items():
        private_files.write(folder / "source" / PurePosixPath(path).relative_to(prefix), text)
    return {"source_root": "source", "source_prefix": prefix}


def _user_files(dump: StackDump) -> Iterable[str]:
    for thread in dump.threads:
        for frame in thread.frames:
            if frame.native or frame.line is None or not frame.file.startswith("/") or not frame.file.endswith(".py"):
                continue
            if ".." not in frame.file and (not is_library_file(frame.file) or is_unknown_package(frame.file)):
                yield frame.file


def _read(path: Path) -> bytes | None:
    with suppress(OSError):
        seen = path.stat()
        if stat.S_ISREG(seen.st_mode) and seen.st_size <= FILE_BYTES:
            return path.read_bytes()
    return None
