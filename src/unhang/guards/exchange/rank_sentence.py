"""Ranks in a sentence."""

from __future__ import annotations

from collections.abc import Iterable

from unhang.sentences import rank_ranges


def ranks_text(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0-3, 7``."""
    named = tuple(ranks)
    return f"rank {named[0]}" if len(named) == 1 else f"ranks {rank_ranges(named)}"
