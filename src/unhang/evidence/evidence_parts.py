"""What some of the files held, and how such parts become one EvidenceSet: read here, in processes or on other machines.

Parts may come in any order; the evidence is the same as if one reader had gone through all files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from unhang.evidence.evidence_set import EvidenceSet, apply_manifests, unavailable_files
from unhang.evidence.file_names import rank_from_name
from unhang.evidence.items import RecorderDump
from unhang.findings import Source, Unread
from unhang.wire.documents.bundle import folder_of

if TYPE_CHECKING:
    from unhang.evidence.flight_recorder.columns import SharedTables
    from unhang.evidence.read_limits import ReadLimits

EMPTY_FILE = "an empty file"
MORE_SOURCES = "program text beyond the number kept"
_OWN_FILE_LABELS = ("a verdict of unhang", "a plan of unhang run", "a record of unhang run", "a report of unhang")


@dataclass(slots=True)
class EvidencePart:
    """What a reader found in some of the files. It can be pickled."""

    evidence: EvidenceSet = field(default_factory=EvidenceSet)
    recordings: list[RecorderDump | Unread] = field(default_factory=list)
    """Of dumps that are files of their own."""
    seen: set[str] = field(default_factory=set)
    """Names of all that was opened, or could not be."""
    foreign: list[str] = field(default_factory=list)
    """Files that stand where a bundle holds something else."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """How many files hold no evidence, by what they are."""
    passed_over_example: dict[str, str] = field(default_factory=dict)

    def count(self, name: str, label: str) -> None:
        """Note that the file ``name`` is ``label``, which holds no evidence."""
        self.passed_over[label] += 1
        self.passed_over_example.setdefault(label, name)


class EvidenceParts:
    """Collects parts; ``joined`` makes one EvidenceSet of them. Equal values of their recordings are kept once."""

    def __init__(self, inputs: Sequence[str], limits: ReadLimits) -> None:
        self._inputs = list(inputs)
        self._limits = limits
        self._parts: dict[int, EvidencePart] = {}
        self._shared: SharedTables | None = None

    def add(self, place: int, part: EvidencePart) -> None:
        """Take ``part``, which begins with the file that was found at ``place``; every part has a place of its own."""
        self._parts[place] = part
        if len(self._parts) > 1:
            self._intern(part)

    def _intern(self, part: EvidencePart) -> None:
        recordings = [*part.recordings, *part.evidence.recorder_dumps]
        if not recordings:
            return
        from unhang.evidence.flight_recorder.columns import SharedTables
        from unhang.evidence.flight_recorder.many_dumps import intern_dumps

        self._shared = self._shared or SharedTables()
        intern_dumps(recordings, self._shared)

    def joined(self) -> EvidenceSet:
        """Everything, with what the manifests know of it."""
        parts = [self._parts[place] for place in sorted(self._parts)]
        whole = parts[0] if parts else EvidencePart()
        for part in parts[1:]:
            _extend(whole, part)
        evidence = whole.evidence
        evidence.inputs = self._inputs
        for item in whole.recordings:
            _add_recording(evidence, item)
        self._drop_sources(whole)
        _apply_manifests(whole)
        evidence.unread.extend(self._passed_over(whole))
        return evidence

    def _drop_sources(self, whole: EvidencePart) -> None:
        """Each reader keeps as many as all together may."""
        kept = whole.evidence.sources
        for file in kept[self._limits.sources :]:
            whole.count(file.source.path, MORE_SOURCES)
        del kept[self._limits.sources :]

    def _passed_over(self, whole: EvidencePart) -> list[Unread]:
        evidence, counts = whole.evidence, whole.passed_over
        named = whole.passed_over_example.get(EMPTY_FILE) in evidence.inputs
        if not named and (evidence.logs or evidence.recorder_dumps):
            # launchers open a log for each stream of each rank; most stay empty, which is nothing to report
            counts.pop(EMPTY_FILE, None)
        if evidence.manifests:
            for label in _OWN_FILE_LABELS:
                counts.pop(label, None)  # they belong to the bundle as its evidence does
        found = []
        for label, count in sorted(counts.items()):
            others = f" (and {count - 1} more like it)" if count > 1 else ""
            example = Source(whole.passed_over_example[label])
            found.append(Unread(example, f"is {label}, which holds no evidence{others}"))
        return found


def _extend(whole: EvidencePart, part: EvidencePart) -> None:
    for one in fields(EvidenceSet):
        kept: list[Any] = getattr(whole.evidence, one.name)
        kept.extend(getattr(part.evidence, one.name))
    whole.recordings.extend(part.recordings)
    whole.seen |= part.seen
    whole.foreign.extend(part.foreign)
    whole.passed_over.update(part.passed_over)
    for label, example in part.passed_over_example.items():
        whole.passed_over_example.setdefault(label, example)


def _add_recording(evidence: EvidenceSet, item: RecorderDump | Unread) -> None:
    if isinstance(item, Unread):
        evidence.unread.append(item)
        return
    evidence.recorder_dumps.append(item)
    evidence.unread.extend(item.unread)


def _apply_manifests(whole: EvidencePart) -> None:
    evidence = whole.evidence
    try:
        apply_manifests(evidence)
    except Exception as error:  # noqa: BLE001 - what was read stays read without what the manifests know of it
        evidence.unread.append(Unread.after(error, evidence.manifests[0].source))
    for manifest in evidence.manifests:
        evidence.unread.extend(unavailable_files(manifest, whole.seen))
    folders = [folder_of(manifest) for manifest in evidence.manifests]
    for name in whole.foreign:
        if any(name.startswith(folder) for folder in folders):
            evidence.unread.append(Unread(Source(name), "is not what a bundle holds there", rank_from_name(name)))
