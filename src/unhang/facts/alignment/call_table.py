"""The recorded collectives of one group side by side: which ranks called what at each position."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from unhang.evidence.items import Signature
from unhang.facts.collective_operations import signature_differences
from unhang.facts.model import GroupFacts


class CallTable:
    """All collectives of one group as columns (position, rank, signature), one row a call."""

    def __init__(self, group: GroupFacts) -> None:
        ids: dict[Signature, int] = {}
        self.signatures: list[Signature] = []
        positions, ranks, signatures = [], [], []
        for rank, entries in sorted(group.entries.items()):
            mapping = np.array([self._intern(s, ids) for s in entries.signatures], dtype=np.int64)
            positions.append(entries.position)
            ranks.append(np.full(len(entries), rank, dtype=np.int64))
            signatures.append(mapping[entries.signature])
        self.position: npt.NDArray[np.int64] = np.concatenate(positions)
        order = np.argsort(self.position, kind="stable")
        self.position = self.position[order]
        self.rank: npt.NDArray[np.int64] = np.concatenate(ranks)[order]
        self.signature: npt.NDArray[np.int64] = np.concatenate(signatures)[order]
        self._known_positions = np.unique(self.position)
        self.first = {rank: int(entries.position[0]) for rank, entries in group.entries.items()}
        self._known: dict[frozenset[int], tuple[str, ...]] = {}

    def _intern(self, signature: Signature, ids: dict[Signature, int]) -> int:
        if signature not in ids:
            ids[signature] = len(self.signatures)
            self.signatures.append(signature)
        return ids[signature]

    def _rows_at(self, position: int) -> slice:
        low = int(np.searchsorted(self.position, position, "left"))
        return slice(low, int(np.searchsorted(self.position, position, "right")))

    def shared_positions(self) -> list[int]:
        """Positions with more than one signature."""
        pairs = np.unique(np.stack([self.position, self.signature]), axis=1)
        positions, counts = np.unique(pairs[0], return_counts=True)
        return [int(p) for p in positions[counts > 1]]

    def count_between(self, low: int, high: int) -> int:
        """How many recorded positions lie in ``low .. high - 1``."""
        first, end = self._known_positions.searchsorted((low, high))
        return int(end - first)

    def differences_at(self, position: int) -> tuple[str, ...]:
        """In what the calls at ``position`` differ."""
        ids = frozenset(int(i) for i in self.signature[self._rows_at(position)])
        if ids not in self._known:
            self._known[ids] = signature_differences([self.signatures[i] for i in ids])
        return self._known[ids]

    def calls_at(self, position: int) -> dict[Signature, tuple[int, ...]]:
        """Ranks by what they called at ``position``, biggest cohort first."""
        here = self._rows_at(position)
        calls: dict[Signature, set[int]] = defaultdict(set)
        for rank, signature in zip(self.rank[here].tolist(), self.signature[here].tolist(), strict=True):
            calls[self.signatures[signature]].add(rank)
        return {s: tuple(sorted(r)) for s, r in sorted(calls.items(), key=lambda item: (-len(item[1]), min(item[1])))}

    def has_unique_ranks(self, position: int) -> bool:
        """Every rank there has one record; the parts of a coalesced call are several."""
        ranks = self.rank[self._rows_at(position)]
        return len(np.unique(ranks)) == len(ranks)

    def all_recorded_before(self, position: int) -> bool:
        """All these ranks have a record before ``position`` too, or recorded from the start: nobody is shifted."""
        here = self._rows_at(position)
        return all(self.first[rank] < position or position <= 1 for rank in self.rank[here].tolist())
