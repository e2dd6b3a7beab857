"""Samples of a machine as ``machine/series.jsonl`` holds them, for made-up cases and tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

UUID = "GPU-{:08d}-0000-4000-8000-000000000000"


def card(index: int, **parts: Any) -> dict[str, Any]:
    """A card under load."""
    plain = {"util": 98, "mem_used": 60 << 30, "mem_total": 80 << 30, "sm_mhz": 1980, "sm_max_mhz": 1980, "temp_c": 61}
    named = {
        "index": index,
        "uuid": UUID.format(index),
        "bus": f"0000:{index:02x}:00.0",
        "name": "NVIDIA H100 80GB HBM3",
    }
    return {**named, **plain, "power_w": 520, "throttle": [], **parts}


def rank(number: int, **parts: Any) -> dict[str, Any]:
    """A rank on the card of its number."""
    return {"rank": number, "pid": 4000 + number, "cpus": 1.1, "starved": 0.01, "cards": [UUID.format(number)], **parts}


def series(rows: Sequence[Mapping[str, Any]], *, last_s: float, node: str = "node-a", every_s: float = 10.0) -> bytes:
    """A whole file: ``rows`` every ``every_s`` seconds, the last at ``last_s``."""
    lines: list[Mapping[str, Any]] = [{"schema": "unhang.machine/1", "node": node, "every_s": every_s}]
    for at, row in enumerate(rows):
        t_s = last_s - every_s * (len(rows) - 1 - at)
        lines.append({"t_s": t_s, "for_s": every_s, "node": node, **row})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)
