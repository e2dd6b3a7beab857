"""The user's source around the evidence, kept beside it as it is now."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import Frame, SourceFile, frames_of
from unhang.findings import Source
from unhang.knowledge.libraries import is_library_file, is_unknown_package
from unhang.program.imports.import_statements import imported_files
from unhang.watch import private_files

SOURCE_FILES, SOURCE_BYTES = 200, 1 << 20
MAX_PATHS_TRIED = 20_000
"""Most of what a file imports is not beside it: so many paths are tried."""


def keep_source(evidence: EvidenceSet, folder: Path, *, seen_at: Callable[[str], Path] = Path) -> dict[str, str]:
    """Copy the user's files that frames name, and those beside them that these import, as they are now.

    Where they stood goes into the manifest. What decides a stall often stands in no stack: a split without a seed was
    made long before.

    ``seen_at``: where we find a file that the job calls by that path (a container has its own file system).
    """
    kept = {source.path for source in evidence.sources}
    texts: dict[str, bytes] = {}
    waiting = list(dict.fromkeys(_user_files(evidence)))
    folders = {PurePosixPath(path).parent for path in waiting}
    seen = set(kept)
    while waiting and len(texts) < SOURCE_FILES and len(seen) < MAX_PATHS_TRIED:
        path = waiting.pop(0)
        if path in seen or not _is_own(path):
            continue
        seen.add(path)
        text = _text(seen_at(path))
        if text is not None:
            texts[path] = text
            spoken = text.decode("utf-8", "replace")
            waiting += (found for folder in folders for found in imported_files(spoken, folder))
    prefix = _shared_folder([*texts, *kept])
    for path, text in texts.items():
        target = folder / "source" / PurePosixPath(path).relative_to(prefix)
        private_files.write_text(target, text)
        evidence.sources.append(SourceFile(Source(str(target)), path, text.decode("utf-8", "replace")))
    return {"source_root": "source", "source_prefix": prefix}


def _text(file: Path) -> bytes | None:
    with suppress(OSError):
        seen = file.stat()
        if stat.S_ISREG(seen.st_mode) and seen.st_size <= SOURCE_BYTES:
            return file.read_bytes()
    return None


def _shared_folder(paths: list[str]) -> str:
    """The deepest folder that holds all ``paths``."""
    parents = [PurePosixPath(path).parent.parts for path in paths]
    shared: list[str] = []
    for parts in zip(*parents, strict=False):
        if len(set(parts)) != 1:
            break
        shared.append(parts[0])
    return str(PurePosixPath(*shared)) if shared else "/"


def _user_files(evidence: EvidenceSet) -> Iterator[str]:
    for frame in _frames(evidence):
        if frame.native or frame.line is None or not frame.file.startswith("/") or not frame.file.endswith(".py"):
            continue
        if ".." in PurePosixPath(frame.file).parts:
            continue  # it would be copied to another place than it came from
        if _is_own(frame.file):
            yield frame.file


def _is_own(path: str) -> bool:
    return not is_library_file(path) or is_unknown_package(path)


def _without_imported_by_libraries(frames: tuple[Frame, ...]) -> Iterator[Frame]:
    """What a library imports is no part of the program, also where no list knows it."""
    importer = ""
    for frame in reversed(frames):
        if not frame.file.startswith("<frozen importlib"):
            importer = frame.file
            yield frame
        elif importer and not _is_own(importer):
            return


def _frames(evidence: EvidenceSet) -> Iterator[Frame]:
    for thread in (thread for dump in evidence.stacks for thread in dump.threads):
        yield from _without_imported_by_libraries(thread.frames)
    yield from (frame for known in evidence.recorder_dumps for stack in known.entries.stacks for frame in stack)
    yield from (frame for log in evidence.logs for traceback in log.tracebacks for frame in traceback.frames)
    lines = [place.frames for pace in evidence.paces for rank in pace.ranks for place in rank.places]
    lines += [call.frames for compared in evidence.comparisons for call in compared.calls]
    yield from (frame for one in lines for frame in frames_of(one))
