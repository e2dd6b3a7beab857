"""Read files that were found, one after the other: what each is, is decided by its content."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from unhang.evidence.evidence_parts import EMPTY_FILE, MORE_SOURCES, EvidencePart
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.file_names import host_from_name, rank_from_name
from unhang.evidence.format_detection import FileKind
from unhang.evidence.found_files import FoundFiles
from unhang.evidence.items import SourceFile
from unhang.evidence.opened_files import OpenedFile, OpenedFiles
from unhang.evidence.read_limits import ReadLimits
from unhang.findings import Source, Unread
from unhang.wire.documents.bundle import log_bytes_at_capture, read_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from unhang.evidence.flight_recorder.many_dumps import SingleDumpReader
    from unhang.evidence.found_files import FileIdentity

_ATTEMPT = re.compile(r"(?:^|[/!])attempt_(\d{1,6})(?=/|$)")
_LOG_SUFFIXES = (".log", ".txt", ".out", ".err", ".faulthandler", ".held")
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
Tell = Callable[[int, str], None]
"""Called with (bytes read since the last call, name of their file)."""


def read_part(
    found: FoundFiles,
    limits: ReadLimits,
    *,
    log_bytes: Mapping[str, int] | None = None,
    spread_dumps: bool = False,
    tell: Tell | None = None,
) -> EvidencePart:
    """All files of ``found``. ``log_bytes``: how much of logs is to be read, by name, where a manifest that is no part
    of ``found`` tells. ``spread_dumps``: many dumps are read by many processes of this machine."""
    with closing(EvidenceReader(limits, log_bytes or {}, spread_dumps=spread_dumps)) as reader:
        for piece in OpenedFiles(found, limits, tell):
            reader.take(piece)
        return reader.part(tell)


class EvidenceReader:
    """Collects what the format readers return.

    Call ``take`` for every piece, then ``part`` once; and ``close`` in the end, whatever happened.
    """

    def __init__(
        self, limits: ReadLimits, log_bytes: Mapping[str, int] | None = None, *, spread_dumps: bool = True
    ) -> None:
        self._limits = limits
        self._log_bytes = log_bytes or {}
        self._spread_dumps = spread_dumps
        self._part = EvidencePart()
        self._evidence = self._part.evidence
        self._dumps: list[tuple[Path, int, str, FileIdentity | None]] = []
        self._one_by_one: SingleDumpReader | None = None

    def take(self, piece: OpenedFile | Unread) -> None:
        """Read one piece (recordings on disk may be left for ``part``, which reads them side by side)."""
        self._part.seen.add(piece.source.path if isinstance(piece, Unread) else piece.name)
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
            self._part.foreign.append(piece.name)
        takers.get(piece.decision.kind, self._count_skipped)(piece)

    def part(self, tell: Tell | None = None) -> EvidencePart:
        """Read the dumps that were left, and hand everything over."""
        if self._dumps:
            from unhang.evidence.flight_recorder.many_dumps import read_recorder_dumps

            paths, identities = [dump[0] for dump in self._dumps], [dump[3] for dump in self._dumps]
            items = read_recorder_dumps(paths, identities=identities)
            for (_, size, name, _), item in zip(self._dumps, items, strict=True):
                self._part.recordings.append(item)
                if tell is not None:
                    tell(size, name)
        return self._part

    def close(self) -> None:
        """End what reading may have started."""
        if self._one_by_one is not None:
            self._one_by_one.close()

    # recordings

    def _take_recording(self, piece: OpenedFile) -> None:
        from unhang.evidence.flight_recorder.many_dumps import SingleDumpReader

        if piece.path is not None and self._spread_dumps:
            # Only what is needed later: a piece holds the head of its file, which adds up over 16,000 ranks.
            self._dumps.append((piece.path, piece.size, piece.name, piece.identity))
            return
        content = piece.remote_dump() or self._whole(piece, self._limits.dump)
        if content is None:
            return
        if self._one_by_one is None:
            self._one_by_one = SingleDumpReader()
        item = self._one_by_one.read(content, source=piece.name, written_s=piece.modified_s)
        if piece.path is not None:
            self._part.recordings.append(item)
        elif isinstance(item, Unread):
            self._evidence.unread.append(item)
        else:
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
        told = self._log_bytes.get(piece.name)
        piece.stream.ends_after = log_bytes_at_capture(self._evidence.manifests, piece.name) if told is None else told
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
            self._part.count(piece.name, MORE_SOURCES)
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
        kind, label = piece.decision.kind, piece.decision.label
        if kind is FileKind.KNOWN_OTHER:
            self._part.count(piece.name, f"a {label}" if label[0] not in "aeiou" else f"an {label}")
            return
        rank = rank_from_name(piece.name)
        if kind is FileKind.EMPTY and (rank is None or piece.name.lower().endswith(_LOG_SUFFIXES)):
            self._part.count(piece.name, EMPTY_FILE)
            return
        reason = (
            "is empty" if kind is FileKind.EMPTY else "is binary data of no known kind (not a flight-recorder dump)"
        )
        self._evidence.unread.append(Unread(Source(piece.name), reason, rank))


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
