"""The verdicts and the redacted inputs they came from, as a folder that drops into ``tests/cases/<cause>/``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from unhang.diagnosis.jobs import JobVerdict
from unhang.errors import UsageError
from unhang.evidence.evidence_set import EvidenceSet, manifest_of
from unhang.evidence.file_names import rank_from_name
from unhang.evidence.format_detection import FileKind
from unhang.evidence.found_files import FoundFiles, find_files
from unhang.evidence.items import RecorderDump
from unhang.evidence.opened_files import OpenedFile, OpenedFiles
from unhang.evidence.read_limits import DEFAULT_LIMITS
from unhang.evidence.recorder_dump_json import recorder_dump_as_json
from unhang.findings import Source, Unread
from unhang.report.redaction.redact import Redactor
from unhang.report.verdict_document import to_json
from unhang.wire.documents.bundle import folder_above, folder_of, source_path_of_file

_DOCUMENTS = (
    FileKind.MANIFEST,
    FileKind.PACE,
    FileKind.COMPARED,
    FileKind.CHECKPOINTS,
    FileKind.EARLIER,
    FileKind.NODES,
    FileKind.MACHINE,
)
"""JSON, one document a file or a line."""
_TEXTS = (FileKind.LOG, FileKind.STACKS, FileKind.SOURCE, *_DOCUMENTS)
_CHUNK = 1 << 20


def save_case(folder: Path, inputs: Sequence[str], evidence: EvidenceSet, jobs: Sequence[JobVerdict]) -> int:
    """Write ``folder/input/`` and ``folder/expected.json``; how many input files were written.

    Raises UsageError when ``folder`` already holds something, or an input cannot be read a second time (a pipe).
    """
    found = check_case(folder, inputs)
    case = _Case(folder / "input", _prepared_redactor(found, jobs), _Names(found), evidence)
    for recording in evidence.recorder_dumps:
        case.add_recording(recording)
    manifests: list[tuple[str, bytes]] = []
    for piece in OpenedFiles(found, DEFAULT_LIMITS):
        if isinstance(piece, OpenedFile) and piece.decision.kind is FileKind.MANIFEST:
            manifests.append((piece.name, piece.whole(DEFAULT_LIMITS.text) or b"{}"))
        elif isinstance(piece, OpenedFile) and piece.decision.kind in _TEXTS:
            case.add_text(piece)
    for name, content in manifests:  # last: they list the others
        case.add_manifest(name, content)
    told = [(job.verdict, job.files.evidence.inputs) for job in jobs] if len(jobs) > 1 else ()
    _write(folder / "expected.json", [to_json(jobs[0].verdict, redactor=case.redactor, jobs=told).encode()])
    return case.written


def check_case(folder: Path, inputs: Sequence[str]) -> FoundFiles:
    """The files a case would be made of; raises UsageError as ``save_case`` does, before anything is read."""
    found = find_files(inputs, DEFAULT_LIMITS)
    if found.pipes:
        raise UsageError("--save-case reads its inputs twice; save standard input to a file first")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty; name a new folder", next_step=f"--save-case {folder}-2")
    return found


def _prepared_redactor(found: FoundFiles, jobs: Sequence[JobVerdict]) -> Redactor:
    """A redactor that knows every host and user of all inputs before the first name is replaced."""
    redactor = Redactor(share=True)
    for job in jobs:
        redactor.learn_from(job.verdict, job.facts)
    for piece in OpenedFiles(found, DEFAULT_LIMITS):
        if isinstance(piece, Unread):
            continue
        redactor.learn(piece.name)
        if piece.decision.kind in _TEXTS:
            for text in _texts(piece):
                redactor.learn(text)
    return redactor


def _texts(piece: OpenedFile) -> Iterator[str]:
    """The piece in chunks of whole lines; bytes that are no UTF-8 survive the round trip."""
    stream = piece.buffered()
    encoding = "utf-16" if piece.head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    if encoding == "utf-16":
        yield stream.read().decode("utf-16", "replace")
        return
    while chunk := stream.read(_CHUNK):
        yield (chunk + stream.readline(_CHUNK)).decode("utf-8", "surrogateescape")


class _Names:
    """Names of pieces as paths below ``input/``."""

    def __init__(self, found: FoundFiles) -> None:
        roots = {file.root for file in found.files}
        self._root = os.path.commonpath([str(root.absolute()) for root in roots]) if roots else "/"
        self._taken: set[str] = set()

    def below_input(self, name: str) -> str:
        """``name`` relative to what the user named; archives become folders."""
        outer, _, inner = name.partition("!")
        relative = os.path.relpath(Path(outer).absolute(), self._root)
        path = f"{relative}/{inner.replace('!', '/')}" if inner else relative
        return "/".join(part for part in path.split("/") if part not in ("", ".", ".."))

    def unique(self, path: str) -> str:
        """``path``, or a like name when it is taken."""
        candidate, count = path, 2
        while candidate in self._taken:
            candidate = f"{count}/{path}"
            count += 1
        self._taken.add(candidate)
        return candidate


class _Case:
    """Writes the inputs of one case."""

    def __init__(self, folder: Path, redactor: Redactor, names: _Names, evidence: EvidenceSet) -> None:
        self.redactor = redactor
        self.written = 0
        self._folder = folder
        self._names = names
        self._evidence = evidence
        self._unread = {item.source.path for item in evidence.unread}
        self._placed: dict[str, str] = {}
        """By the name of an input: where it lies in the case."""

    def add_recording(self, recording: RecorderDump) -> None:
        """Write a dump as redacted JSON under a name that still tells its rank."""
        path = self._path(recording.source.path)
        if recording.rank is not None and rank_from_name(path) != recording.rank:
            path = f"{Path(path).parent}/trace_{recording.rank}.json"
        written = self._write(path, [recorder_dump_as_json(recording, self.redactor.text)], recording.source.path)
        if recording.written_s is not None:
            os.utime(written, (recording.written_s, recording.written_s))  # orders several dumps of one rank

    def add_text(self, piece: OpenedFile) -> None:
        """Write a log, a stack dump, a source file or what we ourselves wrote of a run, redacted."""
        path = self._path(piece.name)
        if piece.decision.kind is FileKind.SOURCE:
            path = self._source_path(piece) or path
        if piece.decision.kind in _DOCUMENTS:
            self._write(path, [self._documents(piece.whole(DEFAULT_LIMITS.text) or b"{}")], piece.name)
            return
        self._write(path, (self._redacted(text) for text in _texts(piece)), piece.name)

    def add_manifest(self, name: str, content: bytes) -> None:
        """Write a bundle's manifest; the files it lists are those of the case, and those that were lost before."""
        path = self._path(name)
        try:
            found = self.redactor.plain(listed := msgspec.json.decode(content))
        except msgspec.DecodeError:
            self._write(path, [self._documents(content)], name)
            return
        if isinstance(found, dict):
            found["source_prefix"] = None  # source files are stored by the whole of their new names
            for key in found.keys() & {"files", "cut"}:
                found[key] = [*self._in_case(name, path, listed[key])]
        self._write(path, [msgspec.json.encode(found)], name)

    def _in_case(self, manifest: str, path: str, names: object) -> Iterator[str]:
        """``names`` of the files beside ``manifest``, as the case calls them beside ``path``."""
        now = folder_above(path)
        for name in names if isinstance(names, list) else ():
            given = f"{folder_above(manifest)}{name}"
            place = self._placed.get(given) or (self._path(given) if given in self._unread else "")
            if place.startswith(now):
                yield place.removeprefix(now)

    def _redacted(self, text: str) -> bytes:
        return self.redactor.text(text).encode("utf-8", "surrogateescape")

    def _documents(self, whole: bytes) -> bytes:
        try:
            return self._document(whole)
        except msgspec.DecodeError:  # not one, but one a line
            return b"".join(self._line(line) + b"\n" for line in whole.splitlines())

    def _line(self, line: bytes) -> bytes:
        try:
            return self._document(line)
        except msgspec.DecodeError:  # torn
            return self._redacted(line.decode("utf-8", "surrogateescape"))

    def _document(self, content: bytes) -> bytes:
        return msgspec.json.encode(self.redactor.plain(msgspec.json.decode(content)))

    def _source_path(self, piece: OpenedFile) -> str:
        """Where a bundle's source file goes so that it is found by the name that redacted frames have for it."""
        found = manifest_of(self._evidence, Source(piece.name))
        path = source_path_of_file(*found) if found is not None else None
        if found is None or path is None:
            return ""
        folder = self._path(folder_of(found[0]) + "x")[: -len("x")]
        return f"{folder}{found[0].source_root}/{self.redactor.text(path).lstrip('/')}"

    def _path(self, name: str) -> str:
        return "/".join(self.redactor.text(part) for part in self._names.below_input(name).split("/"))

    def _write(self, path: str, chunks: Iterable[bytes], source: str) -> Path:
        place = self._placed[source] = self._names.unique(path)
        target = self._folder / place
        _write(target, chunks)
        self.written += 1
        return target


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
    except OSError as error:
        raise UsageError(f"the case cannot be written: {path} ({error.strerror or type(error).__name__})") from error
