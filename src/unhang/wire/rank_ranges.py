"""Ranks in few characters: ``0,2-5``."""

from __future__ import annotations

from collections.abc import Iterable

MAX_RANKS = 4096


def format_ranks(ranks: Iterable[int], limit: int) -> str:
    """``ranks`` in order, in at most ``limit`` characters: what does not fit is left out."""
    text = ""
    for first, last in _runs(sorted({rank for rank in ranks if rank >= 0})):
        run = f"{first}-{last}" if last > first else f"{first}"
        longer = f"{text},{run}" if text else run
        if len(longer) > limit:
            break
        text = longer
    return text


def _runs(ranks: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for rank in ranks:
        if runs and runs[-1][1] == rank - 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    return runs


def parse_ranks(text: str) -> tuple[int, ...]:
    """What :func:`format_ranks` wrote, at most 4,096 ranks; nothing where it is something else."""
    ranks: list[int] = []
    for run in text.split(",") if text else ():
        first, _, last = run.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return ()
        low, high = int(first), int(last or first)
        ranks += range(low, min(high, low + MAX_RANKS - len(ranks)) + 1)
    return tuple(ranks[:MAX_RANKS])
