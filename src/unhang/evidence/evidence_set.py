"""Everything that was read, and what bundles' manifests know of it: whose a file is, and how stack frames call it.

Manifests are applied after reading, because one may be the last member of its archive.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from unhang.evidence.checkpoints.checkpoint import Checkpoint
from unhang.evidence.file_names import rank_from_name
from unhang.evidence.items import LogReading, RecorderDump, SourceFile, StackDump
from unhang.findings import Source, Unread
from unhang.wire.documents.bundle import BundleManifest, folder_of, rank_of_file, source_path_of_file

if TYPE_CHECKING:
    from unhang.wire.documents.call_comparison import CallComparison
    from unhang.wire.documents.earlier_verdicts import EarlierSuspect
    from unhang.wire.documents.machine_series import MachineSeries
    from unhang.wire.documents.other_nodes import ObservedNode
    from unhang.wire.documents.pace import Pace


@dataclass(slots=True)
class EvidenceSet:
    """Everything that was read, by kind. Order carries no meaning."""

    recorder_dumps: list[RecorderDump] = field(default_factory=list)
    stacks: list[StackDump] = field(default_factory=list)
    logs: list[LogReading] = field(default_factory=list)
    manifests: list[BundleManifest] = field(default_factory=list)
    sources: list[SourceFile] = field(default_factory=list)
    paces: list[Pace] = field(default_factory=list)
    comparisons: list[CallComparison] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    earlier: list[EarlierSuspect] = field(default_factory=list)
    nodes: list[ObservedNode] = field(default_factory=list)
    machines: list[MachineSeries] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    """What the user named, for the report."""


def apply_manifests(evidence: EvidenceSet) -> None:
    """Give recordings, stacks, logs and sources of bundles the ranks and paths their manifests tell."""
    if not evidence.manifests:
        return
    for recording in evidence.recorder_dumps:
        known = _rank(evidence, recording.source)
        recording.rank = recording.rank if known is None else known
    evidence.stacks = [_stack(evidence, dump) for dump in evidence.stacks]
    evidence.logs = [_log(evidence, log) for log in evidence.logs]
    evidence.sources = [_source(evidence, file) for file in evidence.sources]


def manifest_of(evidence: EvidenceSet, source: Source) -> tuple[BundleManifest, str] | None:
    """The manifest in the nearest folder above ``source``, and the path of ``source`` in that folder; None without."""
    above = [m for m in evidence.manifests if source.path.startswith(folder_of(m))]
    if not above:
        return None
    nearest = max(above, key=lambda manifest: len(folder_of(manifest)))
    return nearest, source.path[len(folder_of(nearest)) :]


def _rank(evidence: EvidenceSet, source: Source) -> int | None:
    found = manifest_of(evidence, source)
    return rank_of_file(*found) if found is not None else None


def _stack(evidence: EvidenceSet, dump: StackDump) -> StackDump:
    known = _rank(evidence, dump.source)
    found = manifest_of(evidence, dump.source)
    if known is None and dump.rank is None and dump.pid is not None and found is not None:
        owners = [process.rank for process in found[0].processes if process.pid == dump.pid]
        known = owners[0] if len(owners) == 1 else None
    return dump if known is None else replace(dump, rank=known)


def _log(evidence: EvidenceSet, log: LogReading) -> LogReading:
    """A log read under the rank its name told, moved to the rank the manifest tells."""
    known = _rank(evidence, log.source)
    if known is None or known == log.rank:
        return log

    def moved(item: Any) -> Any:
        # ranks that a line itself names stay as they are, and endings name ranks of their own
        return replace(item, rank=known) if getattr(item, "rank", known) == log.rank else item

    ranks = tuple(sorted({known if rank == log.rank else rank for rank in log.ranks}))
    return replace(log.with_items(moved), rank=known, ranks=ranks)


def _source(evidence: EvidenceSet, file: SourceFile) -> SourceFile:
    found = manifest_of(evidence, file.source)
    path = source_path_of_file(*found) if found is not None else None
    return file if path is None else replace(file, path=path)


MAX_NAMED = 100
"""Of a torn archive of thousands of ranks; the others are counted."""


def unavailable_files(manifest: BundleManifest, seen: Container[str]) -> Iterator[Unread]:
    """Files of the bundle that were lost or cut. ``seen``: the names of all that was opened, or could not be."""
    folder = folder_of(manifest)
    gone = [name for name in manifest.files if not _is_there(folder + name, seen)]
    for name in gone[:MAX_NAMED]:
        yield _unavailable(manifest, name, "is listed in bundle.json and is not there")
    if len(gone) > MAX_NAMED:
        yield Unread(manifest.source, f"lists {len(gone) - MAX_NAMED:,} more files that are not there", lost=True)
    for name in manifest.cut:
        yield _unavailable(manifest, name, "is cut: what was printed later could not be kept")


def _is_there(name: str, seen: Container[str]) -> bool:
    """Of several links to one file, only the first is opened; and who names single files leaves the others out."""
    return name in seen or ("!" not in name and os.path.lexists(name))


def _unavailable(manifest: BundleManifest, name: str, reason: str) -> Unread:
    rank = rank_of_file(manifest, name)
    return Unread(Source(folder_of(manifest) + name), reason, rank_from_name(name) if rank is None else rank, lost=True)
