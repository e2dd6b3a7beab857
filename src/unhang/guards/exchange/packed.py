"""What all ranks said as one value: each different value once, with the ranks that said it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping

MAX_BYTES = 1 << 20
"""Of all different values together: every rank reads it from one process."""


def pack(values: Mapping[int, bytes], world_size: int) -> str:
    """One value for the store; ranks without one are missing. Beyond ``MAX_BYTES`` values of later ranks are left
    out."""
    ranks_of: dict[bytes, list[int]] = {}
    for rank in sorted(values):
        ranks_of.setdefault(values[rank], []).append(rank)
    said: list[tuple[str, str]] = []
    left_out: list[int] = []
    room = MAX_BYTES
    for value, ranks in ranks_of.items():
        room -= len(value)
        if room < 0:
            left_out += ranks
        else:
            said.append((rank_spans(ranks), b64encode(value).decode()))
    missing = [rank for rank in range(world_size) if rank not in values]
    return json.dumps({"said": said, "missing": rank_spans(missing), "left_out": rank_spans(sorted(left_out))})


def unpack(text: bytes) -> tuple[dict[int, bytes], tuple[int, ...], tuple[int, ...]]:
    """(values, missing, left out) of :func:`pack`."""
    held = json.loads(text)
    values = {rank: b64decode(value) for spans, value in held["said"] for rank in _ranks(spans)}
    return dict(sorted(values.items())), _ranks(held["missing"]), _ranks(held["left_out"])


def rank_spans(ranks: Iterable[int]) -> str:
    """``0-3,7``: thousands of ranks in a few letters."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in spans)


def _ranks(spans: str) -> tuple[int, ...]:
    return tuple(
        rank
        for span in filter(None, spans.split(","))
        for first, _, last in (span.partition("-"),)
        for rank in range(int(first), int(last or first) + 1)
    )
