"""Gives each piece to the reader of its format and puts what comes back together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from unhang.evidence.evidence_set import EvidenceSet, apply_manifests
from unhang.evidence.format_detection import Kind
from unhang.evidence.found_files import Identity
from unhang.evidence.items import Recording, SourceFile
from unhang.evidence.opened_files import Piece
from unhang.evidence.own_files.listed_files import lost_files
from unhang.evidence.rank_names import rank_from_name
from unhang.evidence.read_limits import Limits
from unhang.findings import Source, Unread

if TYPE_CHECKING:
    from unhang.evidence.flight_recorder.many_dumps import OneByOne
    from unhang.evidence.own_files.machine_series import MachineSeries

Paper = TypeVar("Paper")
_ATTEMPT = re.compile(r"(?:^|[/!])attempt_(\d{1,6})(?=/|$)")
_LOG_SUFFIXES = (".log", ".txt", ".out", ".err", ".faulthandler", ".held")
_EMPTY = "an empty file"
_OUR_OWN = ("a verdict of unhang", "a plan of unhang run", "a record of unhang run", "a report of unhang")


_OF_A_BUNDLE = re.compile(r"(?:^|/)(?:(?P<evidence>dumps|stacks)/(?:earlier/)?\w*rank_\d|machine/[a-z_]+\.jsonl?$)")
_PAPERS = (Kind.PACE, Kind.COMPARED, Kind.CHECKPOINTS, Kind.EARLIER, Kind.NODES, Kind.MACHINE)
_HELD = {"dumps": (Kind.RECORDING,), "stacks": (Kind.STACKS,), None: _PAPERS}
"""What a bundle holds where, unless it is empty."""


class EvidenceReader:
    """Collects what the format readers return.

    Call ``take`` for every piece, then ``finish`` once; and ``close`` in the end, whatever happened.
    """

    def __init__(self, limits: Limits, inputs: Sequence[str]) -> None:
        self._limits = limits
        self._evidence = EvidenceSet(inputs=list(inputs))
        self._dumps: list[tuple[Path, int, str, Identity | None]] = []
        self._one_by_one: OneByOne | None = None
        self._seen: set[str] = set()
        self._foreign: list[str] = []
        """Files that stand where a bundle holds something else."""
        self._passed_over: Counter[str] = Counter()
        self._passed_over_example: dict[str, str] = {}

    def take(self, piece: Piece | Unread) -> None:
        """Read one piece (recordings on disk are left for ``finish``, which reads them side by side)."""
        self._seen.add(piece.source.path if isinstance(piece, Unread) else piece.name)
        if isinstance(piece, Unread):
            self._evidence.unread.append(piece)
            return
        try:
            self._take(piece)
        except Exception as error:  # noqa: BLE001 - one file that a reader fails on must not cost the others
            self._evidence.unread.append(Unread.after(error, Source(piece.name), rank_from_name(piece.name)))

    def _take(self, piece: Piece) -> None:
        takers = {
            Kind.RECORDING: self._take_recording,
            Kind.STACKS: self._take_stacks,
            Kind.LOG: self._take_log,
            Kind.MANIFEST: self._take_manifest,
            Kind.SOURCE: self._take_source,
            Kind.PACE: self._take_pace,
            Kind.COMPARED: self._take_compared,
            Kind.CHECKPOINTS: self._take_checkpoints,
            Kind.EARLIER: self._take_earlier,
            Kind.NODES: self._take_nodes,
            Kind.MACHINE: self._take_machine,
        }
        place = _OF_A_BUNDLE.search(piece.name)
        if place is not None and piece.decision.kind not in (*_HELD[place["evidence"]], Kind.EMPTY):
            self._foreign.append(piece.name)
        takers.get(piece.decision.kind, self._pass_over)(piece)

    def finish(self, tell: Callable[[int, str], None] | None = None) -> EvidenceSet:
        """Read the dumps on disk, give stacks and sources what the manifests know, and hand everything over."""
        self._read_dumps(tell)
        try:
            apply_manifests(self._evidence)
        except Exception as error:  # noqa: BLE001 - what was read stays read without what the manifests know of it
            self._evidence.unread.append(Unread.after(error, self._evidence.manifests[0].source))
        for manifest in self._evidence.manifests:
            self._evidence.unread.extend(lost_files(manifest, self._seen))
        folders = [manifest.source.path.removesuffix("bundle.json") for manifest in self._evidence.manifests]
        for name in self._foreign:
            if any(name.startswith(folder) for folder in folders):
                self._evidence.unread.append(
                    Unread(Source(name), "is not what a bundle holds there", rank_from_name(name))
                )
        named = self._passed_over_example.get(_EMPTY) in self._evidence.inputs
        if not named and (self._evidence.logs or self._evidence.recordings):
            # launchers open a log for each stream of each rank; most stay empty, which is nothing to report
            self._passed_over.pop(_EMPTY, None)
        if self._evidence.manifests:
            for label in _OUR_OWN:
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

    def _take_recording(self, piece: Piece) -> None:
        from unhang.evidence.flight_recorder.many_dumps import OneByOne

        if piece.path is not None:
            # Only what is needed later: a piece holds the head of its file, which adds up over 16,000 ranks.
            self._dumps.append((piece.path, piece.size, piece.name, piece.identity))
            return
        content = self._whole(piece, self._limits.dump)
        if content is None:
            return
        if self._one_by_one is None:
            self._one_by_one = OneByOne()
        self._add_recording(self._one_by_one.read(content, source=piece.name))

    def _read_dumps(self, tell: Callable[[int, str], None] | None) -> None:
        if not self._dumps:
            return
        from unhang.evidence.flight_recorder.many_dumps import read_recordings

        paths, identities = [dump[0] for dump in self._dumps], [dump[3] for dump in self._dumps]
        items = read_recordings(paths, identities=identities)
        for (_, size, name, _), item in zip(self._dumps, items, strict=True):
            self._add_recording(item)
            if tell is not None:
                tell(size, name)

    def _add_recording(self, item: Recording | Unread) -> None:
        if isinstance(item, Unread):
            self._evidence.unread.append(item)
            return
        self._evidence.recordings.append(item)
        self._evidence.unread.extend(item.unread)

    # text

    def _take_stacks(self, piece: Piece) -> None:
        from unhang.evidence.stacks import read_stacks

        content = self._whole(piece, self._limits.text)
        if content is None:
            return
        for dump in read_stacks(content, source=piece.name, rank=rank_from_name(piece.name)):
            self._evidence.stacks.append(dump)
            self._evidence.unread.extend(dump.unread)

    def _take_log(self, piece: Piece) -> None:
        from unhang.evidence.logs import read_log
        from unhang.evidence.logs.content.stacks_in_logs import StackListener
        from unhang.evidence.own_files.bundle import bytes_of_log
        from unhang.evidence.rank_names import host_from_name

        attempt = _ATTEMPT.search(piece.name)
        piece.stream.ends_after = bytes_of_log(self._evidence.manifests, piece.name)
        listener = StackListener()
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

    # papers of ours: one reader each, all asked alike

    def _take_paper(self, piece: Piece, read: Callable[..., Paper | Unread], keep: Callable[[Paper], None]) -> None:
        content = self._whole(piece, self._limits.text)
        if content is None:
            return
        found = read(content, source=Source(piece.name))
        if isinstance(found, Unread):
            self._evidence.unread.append(found)
        else:
            keep(found)

    def _take_manifest(self, piece: Piece) -> None:
        from unhang.evidence.own_files.bundle import read_manifest

        self._take_paper(piece, read_manifest, self._evidence.manifests.append)

    def _take_pace(self, piece: Piece) -> None:
        from unhang.evidence.own_files.pace import read_pace

        self._take_paper(piece, read_pace, self._evidence.paces.append)

    def _take_checkpoints(self, piece: Piece) -> None:
        from unhang.evidence.checkpoints.checkpoint_listing import read_listing

        self._take_paper(piece, read_listing, self._evidence.checkpoints.extend)

    def _take_earlier(self, piece: Piece) -> None:
        from unhang.evidence.own_files.earlier_verdicts import read_listing

        self._take_paper(piece, read_listing, self._evidence.earlier.extend)

    def _take_machine(self, piece: Piece) -> None:
        from unhang.evidence.own_files.machine_series import read_machine_series

        self._take_paper(piece, read_machine_series, self._keep_machine)

    def _keep_machine(self, found: MachineSeries) -> None:
        self._evidence.machines.append(found)
        self._evidence.unread.extend(found.unread)

    def _take_nodes(self, piece: Piece) -> None:
        from unhang.evidence.own_files.other_nodes import read_nodes

        self._take_paper(piece, read_nodes, self._evidence.nodes.extend)

    def _take_compared(self, piece: Piece) -> None:
        from unhang.evidence.own_files.call_comparison import read_compared

        self._take_paper(piece, read_compared, self._evidence.comparisons.extend)

    def _take_source(self, piece: Piece) -> None:
        if len(self._evidence.sources) >= self._limits.sources:
            self._count(piece.name, "program text beyond the number kept")
            return
        content = self._whole(piece, self._limits.source)
        if content is not None:
            path = str(piece.path.absolute()) if piece.path is not None else piece.name.rsplit("!", 1)[-1]
            self._evidence.sources.append(SourceFile(Source(piece.name), path, content.decode("utf-8", "replace")))

    def _whole(self, piece: Piece, limit: int) -> bytes | None:
        content = piece.whole(limit)
        if content is None:
            reason = f"is larger than {limit >> 20:,} MiB, too large for a {piece.decision.kind.value}"
            self._evidence.unread.append(Unread(Source(piece.name), reason))
        return content

    # what is no evidence

    def _pass_over(self, piece: Piece) -> None:
        kind = piece.decision.kind
        if kind is Kind.KNOWN_OTHER:
            self._count(
                piece.name,
                f"a {piece.decision.label}" if piece.decision.label[0] not in "aeiou" else f"an {piece.decision.label}",
            )
            return
        rank = rank_from_name(piece.name)
        if kind is Kind.EMPTY and (rank is None or piece.name.lower().endswith(_LOG_SUFFIXES)):
            self._count(piece.name, _EMPTY)
            return
        reason = "is empty" if kind is Kind.EMPTY else "is binary data of no known kind (not a flight-recorder dump)"
        self._evidence.unread.append(Unread(Source(piece.name), reason, rank))

    def _count(self, name: str, label: str) -> None:
        self._passed_over[label] += 1
        self._passed_over_example.setdefault(label, name)
