"""Now and then, in a job that moves, compare what its ranks called: calls that differ and stop nothing spoil results.

The dumps have no stacks (about 14 ms a rank at 2,000 entries); the lines are those at which ranks were seen in such a
call. The pauses grow: 3 s into training, then after 15, 37 and 94 s, 4, 10 and 24 minutes, then every hour.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from unhang.watch import private_files
from unhang.watch.dump_requests import remove_unchanged, take_dumps
from unhang.watch.sampling import kept_evidence
from unhang.watch.side_process import ForkedChild
from unhang.wire.documents.call_comparison import CallComparison, CallComparisons, ComparedCall

if TYPE_CHECKING:
    from unhang.evidence.items import RecorderDump, RecorderEntries
    from unhang.facts.model import CallMismatch, GroupFacts, PendingCall

STRETCH = 64
"""Positions; the first of a stretch is a multiple of it on every node."""
MAX_STRETCHES, MAX_DIGEST_GROUPS = 16, 4

CallDigest = tuple[int, int, int]
"""(a number for the name of a group, which stretch, a number for what was called there)."""


def digest_calls(groups: Mapping[str, GroupFacts]) -> list[CallDigest]:
    """Of the busiest of ``groups``, the last whole stretches."""
    busiest = sorted(groups.items(), key=lambda known: (-_length(known[1].entries), known[0]))
    return [one for name, group in busiest[:MAX_DIGEST_GROUPS] for one in _digest_group(name, group)]


def groups_in(dumps: Iterable[Path]) -> tuple[dict[str, GroupFacts], dict[int, RecorderDump]]:
    """(groups, recordings by rank) of the dumps in these folders."""
    from unhang.evidence.flight_recorder.many_dumps import read_recorder_dumps
    from unhang.facts.alignment.group_table import groups_from_recordings
    from unhang.facts.dump_choice import choose_dumps
    from unhang.findings import Unread

    paths = [path for folder in dumps for path in sorted(folder.glob("rank_*"))]
    items: Iterable[RecorderDump | Unread] = read_recorder_dumps(paths, whole=True, jobs=1)
    chosen = dict(choose_dumps([item for item in items if not isinstance(item, Unread)]).by_rank)
    return groups_from_recordings(chosen, tuple(sorted(chosen)), frozenset(chosen)), chosen


def differing_nodes(told: Mapping[int | None, Sequence[CallDigest]]) -> list[int | None]:
    """Two nodes that called different things at the same positions; empty where none did."""
    seen: dict[tuple[int, int], tuple[int, int | None]] = {}
    for node, prints in told.items():
        for group, stretch, calls in prints:
            other = seen.setdefault((group, stretch), (calls, node))
            if other[0] != calls:
                return [other[1], node]
    return []


def _length(entries: Mapping[int, RecorderEntries]) -> int:
    return max((len(one) for one in entries.values()), default=0)


def _digest_group(name: str, group: GroupFacts) -> Iterator[CallDigest]:
    from unhang.facts.alignment.nonfatal_mismatch import entries_of_latest_group
    from unhang.facts.collective_operations import signature_text

    if not group.entries:
        return
    entries = entries_of_latest_group(group.entries[min(group.entries)])
    gists = [signature_text(signature) for signature in entries.signatures]
    stretches: dict[int, dict[int, str]] = {}
    for position, signature in zip(entries.position.tolist(), entries.signature.tolist(), strict=True):
        stretches.setdefault(position // STRETCH, {}).setdefault(position, gists[signature])
    whole = [stretch for stretch in sorted(stretches) if len(stretches[stretch]) == STRETCH]
    for stretch in whole[-MAX_STRETCHES:]:
        called = "\n".join(text for _, text in sorted(stretches[stretch].items()))
        yield zlib.crc32(name.encode()), stretch, zlib.crc32(called.encode())


FIRST_AFTER_S, SECOND_AFTER_S, TIMES, MAX_PAUSE_S = 3.0, 15.0, 2.5, 3600.0
MIN_COLLECTIVES = 10
DUMP_LIMIT_S = 3.0
DIGESTS_FILE, DIGESTS_VALID_S = "prints.json", 30.0
"""Other nodes are told so long; their comparisons come at about the same time."""
MAX_GROUPS = 16
MAX_RANKS_TOLD = 256


@dataclass(slots=True)
class CallDriftWatch:
    """Asks for dumps in the life of a job; says once what it found. ``folder`` is the run folder."""

    records: Path
    folder: Path
    child: ForkedChild | None = None
    checks: int = 0
    late: int | None = None
    """The rank that all others waited for, by the dumps that were compared last."""
    _next_s: float = 0.0
    _told: bool = False
    _call_digests: list[CallDigest] = field(default_factory=list)
    _call_digests_s: float = float("-inf")

    def tick(self, max_collectives: int) -> bytes | None:
        """Called at every tick in which nobody waits long; ``machine/compared.json`` when something was found."""
        now_s = time.monotonic()
        if self.child is not None:
            return self._finished(self.child)
        if self._told or max_collectives < MIN_COLLECTIVES:
            return None
        if not self._next_s:
            self._next_s = now_s + FIRST_AFTER_S
        if now_s < self._next_s:
            return None
        self._next_s = now_s + pause_after(self.checks)
        self.checks += 1
        self._start()
        return None

    def _start(self) -> None:
        self._answer.unlink(missing_ok=True)
        self.child = ForkedChild(lambda: compare_calls(self.records, self.folder, self._answer))

    def _finished(self, child: ForkedChild) -> bytes | None:
        if not child.over():
            return None
        self.child = None
        if child.failed:
            kept_evidence.restore(self.folder)
        with suppress(OSError, ValueError):
            told = json.loads(self._answer.with_name(DIGESTS_FILE).read_bytes())
            self._call_digests = [tuple(one) for one in told["calls"]]
            self._call_digests_s = time.monotonic()
            self.late = told["late"] if self.checks > 1 else None  # the first steps are like no others
        with suppress(OSError):
            found = self._answer.read_bytes()
            self._told = True
            return found
        return None

    @property
    def call_digests(self) -> list[CallDigest]:
        """What our ranks called at the comparison that was made just now, for other nodes; else empty."""
        return self._call_digests if time.monotonic() - self._call_digests_s < DIGESTS_VALID_S else []

    def try_again(self) -> None:
        """What was found came to nothing, the job was busy otherwise: compare again when it is time."""
        self._told = False

    def end(self) -> None:
        """Stop comparing now: a sample is about to begin, or the job is over. It is tried again later."""
        if self.child is not None:
            self.child.end()
            self.child = None
            kept_evidence.restore(self.folder)

    @property
    def _answer(self) -> Path:
        return self.folder / ".unhang" / "compared.json"


def pause_after(checks: int) -> float:
    """Seconds to the next comparison when so many were begun before the last one."""
    return min(SECOND_AFTER_S * TIMES ** min(checks, 10), MAX_PAUSE_S)


def compare_calls(records: Path, folder: Path, answer: Path) -> None:
    """Take a dump of every rank and compare them; write ``answer`` only where calls differ. Leaves no dump behind."""
    from unhang.facts.pace.straggler import latest_arriver

    kept_evidence.set_dumps_aside(folder)
    dumps, read = folder / "dumps", dict[Path, int]()
    try:
        read = take_dumps(records, dumps, limit_s=DUMP_LIMIT_S)
        groups, chosen = groups_in([dumps])
        late = latest_arriver(groups, {})
        told = {"calls": digest_calls(groups), "late": late.rank if late is not None else None}
        private_files.write_atomically(answer.with_name(DIGESTS_FILE), json.dumps(told).encode())
        found = _disagreements(groups, chosen)
        if found:
            private_files.write_atomically(answer, comparison_document(found))
    finally:
        remove_unchanged(read)
        kept_evidence.restore(folder)


def find_disagreements(*dumps: Path) -> tuple[CallMismatch, ...]:
    """What the ranks called differently, and survived, as their dumps in these folders tell."""
    return _disagreements(*groups_in(dumps))


def _disagreements(groups: Mapping[str, GroupFacts], chosen: Mapping[int, RecorderDump]) -> tuple[CallMismatch, ...]:
    from unhang.facts.alignment.nonfatal_mismatch import find_nonfatal_mismatches

    return find_nonfatal_mismatches(groups, chosen) if len(chosen) > 1 else ()


def comparison_document(found: tuple[CallMismatch, ...]) -> bytes:
    """``machine/compared.json``."""
    groups = (
        CallComparison(
            group=one.group,
            position=one.position,
            times=one.times,
            aligned=one.records_align,
            calls=tuple(_call(rank, call) for rank, call in _some(one.pending)),
        )
        for one in found[:MAX_GROUPS]
    )
    return CallComparisons(groups=tuple(groups)).json()


def _some(pending: Mapping[int, PendingCall]) -> list[tuple[int, PendingCall]]:
    """Of many ranks those that stand out, and as many of the others."""
    cohorts: dict[object, list[int]] = {}
    for rank in sorted(pending):
        cohorts.setdefault(pending[rank].signature, []).append(rank)
    each = MAX_RANKS_TOLD // max(len(cohorts), 1) or 1
    kept = [rank for ranks in sorted(cohorts.values(), key=len) for rank in ranks[:each]][:MAX_RANKS_TOLD]
    return [(rank, pending[rank]) for rank in sorted(kept)]


def _call(rank: int, call: PendingCall) -> ComparedCall:
    signature = call.signature
    assert signature is not None
    return ComparedCall(
        rank,
        signature.operation,
        signature.input_sizes,
        signature.output_sizes,
        signature.input_dtypes,
        signature.output_dtypes,
        tuple((frame.file, frame.line or 0, frame.function) for frame in call.stack[:32]),
    )
