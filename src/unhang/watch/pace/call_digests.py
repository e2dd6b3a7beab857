"""What the ranks of a node called, as a few numbers that nodes can compare: one for each stretch of positions."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unhang.evidence.items import RecorderDump, RecorderEntries
    from unhang.facts.model import GroupFacts

STRETCH = 64
"""Positions; the first of a stretch is a multiple of it on every node."""
MAX_STRETCHES, MAX_GROUPS = 16, 4

CallDigest = tuple[int, int, int]
"""(a number for the name of a group, which stretch, a number for what was called there)."""


def digest_calls(dumps: Path) -> list[CallDigest]:
    """Of the busiest groups in ``dumps``, the last whole stretches."""
    groups, _ = groups_in([dumps])
    busiest = sorted(groups.items(), key=lambda known: (-_length(known[1].entries), known[0]))
    return [one for name, group in busiest[:MAX_GROUPS] for one in _digest_group(name, group)]


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
