"""Anything the user names, read into one EvidenceSet: files, folders, globs, pipes, archives, in any mix.

What a file is, is decided by its content. What cannot be read is in ``unread``, with its reason; only when nothing at
all can be read is an error raised.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from unhang.errors import EvidenceError, UsageError
from unhang.evidence.evidence_set import EvidenceSet, apply_manifests, unavailable_files
from unhang.evidence.file_names import host_from_name, rank_from_name
from unhang.evidence.format_detection import FileKind
from unhang.evidence.found_files import FileIdentity, FoundFiles, find_files
from unhang.evidence.items import RecorderDump, SourceFile
from unhang.evidence.opened_files import OpenedFile, OpenedFiles
from unhang.evidence.read_limits import DEFAULT_LIMITS, ReadLimits
from unhang.findings import Source, Unread
from unhang.wire.documents.bundle import folder_of, log_bytes_at_capture, read_manifest

if TYPE_CHECKING:
    from unhang.evidence.flight_recorder.many_dumps import SingleDumpReader

_ATTEMPT = re.compile(r"(?:^|[/!])attempt_(\d{1,6})(?=/|$)")
_LOG_SUFFIXES = (".log", ".txt", ".out", ".err", ".faulthandler", ".held")
_EMPTY = "an empty file"
_OWN_FILE_LABELS = ("a verdict of unhang", "a plan of unhang run", "a record of unhang run", "a report of unhang")
_OF_A_BUNDLE = re.compile(r"(?:^|/)(?:(?P<evidence>dumps|stacks)/(?:earlier/)?\w*rank_\d|machine/[a-z_]+\.jsonl?$)")
_OWN_FILE_KINDS = (
    FileKind.PACE,
    FileKind.COMPARED,
    FileKind.CHECKPOINTS,
    FileKind.EARLIER,
    FileKind.NODES,
    FileKind.MACHINE,
)
_KINDS_BY_FOLDER = {"dumps": (FileKind.RECORDING,), "stacks": (FileKind.STACKS,), None: _OWN_FILE_KINDS}
"""What a bundle holds where, unless it is empty."""
Progress = Callable[[int, int, str], None]
"""Called with (bytes done, bytes in all, name of the file being read)."""


def read_evidence(
    inputs: Sequence[str], *, limits: ReadLimits = DEFAULT_LIMITS, progress: Progress | None = None
) -> EvidenceSet:
    """Read everything ``inputs`` name.

    Raises UsageError when nothing of what was named exists, EvidenceError when nothing in it can be read.
    """
    if not inputs:
        raise UsageError("give what the job left behind: a log, a dump or a folder", next_step="unhang diagnose PATH")
    found = find_files(inputs, limits)
    if not found.files and not found.pipes and not found.unread:
        raise _nothing_there(found)
    reader = EvidenceReader(limits, found.inputs)
    tell = _progress_callback(found, progress)
    with closing(reader):
        for piece in OpenedFiles(found, limits, tell):
            reader.take(piece)
        evidence = reader.finish(tell)
    evidence.unread[:0] = [*found.unread, *(Unread(Source(text), "does not exist") for text in found.missing)]
    if not (evidence.recorder_dumps or evidence.stacks or evidence.logs or evidence.manifests):
        raise _nothing_readable(evidence, found)
    return evidence


def _progress_callback(found: FoundFiles, progress: Progress | None) -> Callable[[int, str], None] | None:
    if progress is None:
        return None
    total = sum(max(0, file.size) for file in found.files)
    done = 0

    def tell(count: int, name: str) -> None:
        nonlocal done
        done += count
        progress(min(done, total), total, name)

    return tell


def _nothing_there(found: FoundFiles) -> UsageError:
    if found.missing:
        named = ", ".join(found.missing[:3])
        return UsageError(
            f"nothing to read: {named} does not exist", next_step="unhang diagnose PATH, or unhang to look around"
        )
    return UsageError(
        "nothing to read: the folder holds no files", next_step="unhang diagnose PATH, or unhang to look around"
    )


def _nothing_readable(evidence: EvidenceSet, found: FoundFiles) -> EvidenceError:
    looked = len(found.files) + len(found.pipes)
    reasons = "; ".join(f"{item.source.path}: {item.reason}" for item in evidence.unread[:3])
    more = f"; and {len(evidence.unread) - 3} more" if len(evidence.unread) > 3 else ""
    what = f"{looked} file{'s' if looked != 1 else ''} looked at"
    return EvidenceError(
        f"nothing here can be read as a log, a dump or a stack ({what}): {reasons}{more}",
        next_step="give the job's log or its flight-recorder dumps: unhang diagnose PATH",
    )


class EvidenceReader:
    """Collects what the format readers return.

    Call ``take`` for every piece, then ``finish`` once; and ``close`` in the end, whatever happened.
    """

    def __init__(self, limits: ReadLimits, inputs: Sequence[str]) -> None:
        self._limits = limits
        self._evidence = EvidenceSet(inputs=list(inputs))
        self._dumps: list[tuple[Path, int, str, FileIdentity | None]] = []
        self._one_by_one: SingleDumpReader | None = None
        self._seen: set[str] = set()
        self._foreign: list[str] = []
        """Files that stand where a bundle holds something else."""
        self._passed_over: Counter[str] = Counter()
        self._passed_over_example: dict[str, str] = {}

    def take(self, piece: OpenedFile | Unread) -> None:
        """Read one piece (recordings on disk are left for ``finish``, which reads them side by side)."""
        self._seen.add(piece.source.path if isinstance(piece, Unread) else piece.name)
        if isinstance(piece, Unread):
            self._evidence.unread.append(piece)
            return
        try:
            self._take(piece)
        except Exception as error:  # noqa: BLE001 - one file that a reader fails on must not cost the others
            self._evidence.unread.append(Unread.after(error, Source(piece.name), rank_from_name(piece.name)))

    def _take(self, piece: OpenedFile) -> None:
        takers = {
            FileKind.RECORDING: self._take_recording,
            FileKind.STACKS: self._take_stacks,
            FileKind.LOG: self._take_log,
            FileKind.SOURCE: self._take_source,
            FileKind.MANIFEST: self._take_own_file,
            **dict.fromkeys(_OWN_FILE_KINDS, self._take_own_file),
        }
        place = _OF_A_BUNDLE.search(piece.name)
        if place is not None and piece.decision.kind not in (*_KINDS_BY_FOLDER[place["evidence"]], FileKind.EMPTY):
            self._foreign.append(piece.name)
        takers.get(piece.decision.kind, self._count_skipped)(piece)

    def finish(self, tell: Callable[[int, str], None] | None = None) -> EvidenceSet:
        """Read the dumps on disk, give stacks and sources what the manifests know, and hand everything over."""
        self._read_dumps(tell)
        try:
            apply_manifests(self._evidence)
        except Exception as error:  # noqa: BLE001 - what was read stays read without what the manifests know of it
            self._evidence.unread.append(Unread.after(error, self._evidence.manifests[0].source))
        for manifest in self._evidence.manifests:
            self._evidence.unread.extend(unavailable_files(manifest, self._seen))
        folders = [folder_of(manifest) for manifest in self._evidence.manifests]
        for name in self._foreign:
            if any(name.startswith(folder) for folder in folders):
                self._evidence.unread.append(
                    Unread(Source(name), "is not what a bundle holds there", rank_from_name(name))
                )
        named = self._passed_over_example.get(_EMPTY) in self._evidence.inputs
        if not named and (self._evidence.logs or self._evidence.recorder_dumps):
            # launchers open a log for each stream of each rank; most stay empty, which is nothing to report
            self._passed_over.pop(_EMPTY, None)
        if self._evidence.manifests:
            for label in _OWN_FILE_LABELS:
                self._passed_over.pop(label, None)  # they belong to the bundle as its evidence does
        for label, count in sorted(self._passed_over.items()):
            example = self._passed_over_example[label]
            others = f" (and {count - 1} more like it)" if count > 1 else ""
            self._evidence.unread.append(Unread(Source(example), f"is {label}, which holds no evidence{others}"))
        return self._evidence

    def close(self) -> None:
        """End what reading may have started."""
        if self._one_by_one is not None:
            self._one_by_one.close()

    # recordings

    def _take_recording(self, piece: OpenedFile) -> None:
        from unhang.evidence.flight_recorder.many_dumps import SingleDumpReader

        if piece.path is not None:
            # Only what is needed later: a piece holds the head of its file, which adds up over 16,000 ranks.
            self._dumps.append((piece.path, piece.size, piece.name, piece.identity))
            return
        content = piece.remote_dump() or self._whole(piece, self._limits.dump)
        if content is None:
            return
        if self._one_by_one is None:
            self._one_by_one = SingleDumpReader()
        self._add_recording(self._one_by_one.read(content, source=piece.name, written_s=piece.modified_s))

    def _read_dumps(self, tell: Callable[[int, str], None] | None) -> None:
        if not self._dumps:
            return
        from unhang.evidence.flight_recorder.many_dumps import read_recorder_dumps

        paths, identities = [dump[0] for dump in self._dumps], [dump[3] for dump in self._dumps]
        items = read_recorder_dumps(paths, identities=identities)
        for (_, size, name, _), item in zip(self._dumps, items, strict=True):
            self._add_recording(item)
            if tell is not None:
                tell(size, name)

    def _add_recording(self, item: RecorderDump | Unread) -> None:
        if isinstance(item, Unread):
            self._evidence.unread.append(item)
            return
        self._evidence.recorder_dumps.append(item)
        self._evidence.unread.extend(item.unread)

    # text

    def _take_stacks(self, piece: OpenedFile) -> None:
        from unhang.evidence.stacks import read_stacks

        content = self._whole(piece, self._limits.text)
        if content is None:
            return
        for dump in read_stacks(content, source=piece.name, rank=rank_from_name(piece.name)):
            self._evidence.stacks.append(dump)
            self._evidence.unread.extend(dump.unread)

    def _take_log(self, piece: OpenedFile) -> None:
        from unhang.evidence.logs import read_log
        from unhang.evidence.logs.content.stacks_in_logs import LogStackReader

        attempt = _ATTEMPT.search(piece.name)
        piece.stream.ends_after = log_bytes_at_capture(self._evidence.manifests, piece.name)
        listener = LogStackReader()
        piece.stream.skips_holes = True
        rank = rank_from_name(piece.name)
        reading = read_log(
            cast("BinaryIO", piece.stream),
            source=piece.name,
            rank=rank,
            attempt=int(attempt.group(1)) if attempt else 0,
            host=host_from_name(piece.name),
            modified_s=piece.modified_s,
            listener=listener,
        )
        self._evidence.logs.append(reading)
        self._evidence.unread.extend(reading.unread)
        self._evidence.stacks.extend(listener.stacks(piece.name, rank))

    def _take_own_file(self, piece: OpenedFile) -> None:
        content = self._whole(piece, self._limits.text)
        if content is None:
            return
        read, kept = _own_file_readers(self._evidence)[piece.decision.kind]
        found = read(content, source=Source(piece.name))
        if isinstance(found, Unread):
            self._evidence.unread.append(found)
            return
        kept.extend(found if isinstance(found, tuple) else (found,))
        if piece.decision.kind is FileKind.MACHINE:
            self._evidence.unread.extend(found.unread)

    def _take_source(self, piece: OpenedFile) -> None:
        if len(self._evidence.sources) >= self._limits.sources:
            self._count(piece.name, "program text beyond the number kept")
            return
        content = self._whole(piece, self._limits.source)
        if content is not None:
            path = str(piece.path.absolute()) if piece.path is not None else piece.name.rsplit("!", 1)[-1]
            self._evidence.sources.append(SourceFile(Source(piece.name), path, content.decode("utf-8", "replace")))

    def _whole(self, piece: OpenedFile, limit: int) -> bytes | None:
        content = piece.whole(limit)
        if content is None:
            reason = f"is larger than {limit >> 20:,} MiB, too large for a {piece.decision.kind.value}"
            self._evidence.unread.append(Unread(Source(piece.name), reason))
        return content

    # what is no evidence

    def _count_skipped(self, piece: OpenedFile) -> None:
        kind = piece.decision.kind
        if kind is FileKind.KNOWN_OTHER:
            self._count(
                piece.name,
                f"a {piece.decision.label}" if piece.decision.label[0] not in "aeiou" else f"an {piece.decision.label}",
            )
            return
        rank = rank_from_name(piece.name)
        if kind is FileKind.EMPTY and (rank is None or piece.name.lower().endswith(_LOG_SUFFIXES)):
            self._count(piece.name, _EMPTY)
            return
        reason = (
            "is empty" if kind is FileKind.EMPTY else "is binary data of no known kind (not a flight-recorder dump)"
        )
        self._evidence.unread.append(Unread(Source(piece.name), reason, rank))

    def _count(self, name: str, label: str) -> None:
        self._passed_over[label] += 1
        self._passed_over_example.setdefault(label, name)


def _own_file_readers(evidence: EvidenceSet) -> dict[FileKind, tuple[Callable[..., Any], list[Any]]]:
    """Who reads a file of ours, and where what it holds goes. Most evidence has none, so they are loaded here."""
    from unhang.evidence.checkpoints.checkpoint_listing import read_checkpoint_listing
    from unhang.wire.documents.call_comparison import read_call_comparisons
    from unhang.wire.documents.earlier_verdicts import read_suspect_listing
    from unhang.wire.documents.machine_series import read_machine_series
    from unhang.wire.documents.other_nodes import read_nodes
    from unhang.wire.documents.pace import read_pace

    return {
        FileKind.MANIFEST: (read_manifest, evidence.manifests),
        FileKind.PACE: (read_pace, evidence.paces),
        FileKind.COMPARED: (read_call_comparisons, evidence.comparisons),
        FileKind.CHECKPOINTS: (read_checkpoint_listing, evidence.checkpoints),
        FileKind.EARLIER: (read_suspect_listing, evidence.earlier),
        FileKind.NODES: (read_nodes, evidence.nodes),
        FileKind.MACHINE: (read_machine_series, evidence.machines),
    }
