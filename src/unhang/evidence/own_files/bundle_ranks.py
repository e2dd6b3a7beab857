"""What a bundle's manifest knows of its files: whose they are, and how stack frames call them.

Applied after reading, because a manifest may be the last member of its archive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from unhang.evidence.items import EvidenceSet, LogReading, SourceFile, StackDump
from unhang.evidence.own_files.bundle import rank_of_file, source_path_of_file
from unhang.evidence.own_files.recorder_items import BundleManifest
from unhang.findings import Source


class _OfRank(Protocol):
    @property
    def rank(self) -> int | None: ...


Item = TypeVar("Item", bound=_OfRank)


def apply_manifests(evidence: EvidenceSet) -> None:
    """Give recordings, stacks, logs and sources of bundles the ranks and paths their manifests tell."""
    if not evidence.manifests:
        return
    for recording in evidence.recordings:
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


def folder_of(manifest: BundleManifest) -> str:
    """The beginning that the names of all files of a bundle share."""
    return folder_above(manifest.source.path)


def folder_above(name: str) -> str:
    """``name`` of a file, in a folder or an archive, without its last part."""
    return name[: max(name.rfind("/"), name.rfind("!")) + 1]


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

    def moved(items: Sequence[Item]) -> tuple[Item, ...]:
        # ranks that a line itself names stay as they are
        return tuple(replace(item, rank=known) if item.rank == log.rank else item for item in items)  # type: ignore[type-var]

    return replace(
        log,
        rank=known,
        ranks=tuple(sorted({known if rank == log.rank else rank for rank in log.ranks})),
        events=moved(log.events),
        tracebacks=moved(log.tracebacks),
        exits=moved(log.exits),
        progress=moved(log.progress),
        last_lines=moved(log.last_lines),
        complaints=moved(log.complaints),
    )


def _source(evidence: EvidenceSet, file: SourceFile) -> SourceFile:
    found = manifest_of(evidence, file.source)
    path = source_path_of_file(*found) if found is not None else None
    return file if path is None else replace(file, path=path)
