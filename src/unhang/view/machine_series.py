"""What the machines did during a run (``machine/series*.jsonl``), as lanes of numbers: one a node and quantity."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from unhang.report.machine_quantities import lane_place
from unhang.view.regular_files import open_regular
from unhang.wire.documents.document import DECODE_ERRORS
from unhang.wire.documents.machine_series import MAX_LINE, MachineRow

FOLDER = "machine"
NAME = re.compile(r"series(?:\.(\d{1,4}))?\.jsonl")
MAX_BYTES = 32 << 20
MAX_LANES = 512
"""Sixteen cards, and as much again."""
MAX_NODES = 4_096
HIDDEN_LANES = re.compile(
    r"cost_s|for_s|every_s|.*(?:size|free|answered_s|processors|mem_total|max_mhz|power_limit_w)|net lo .*"
)
"""What our own sampler costs, and what hardly ever changes."""


class Lane(msgspec.Struct):
    """One quantity of one node: times in seconds since the epoch, and values."""

    at_s: list[float]
    values: list[float]


class MachineSeries:
    """The lanes of a run; :meth:`read` takes in what is new. One thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._seen: tuple[tuple[str, int, int], ...] = ()
        self.nodes: dict[str, dict[str, Lane]] = {}

    def read(self) -> None:
        """Read the files again if any of them changed: they are small and few."""
        files = _files(self._folder)
        seen = tuple(_seen(path) for path in files)
        if seen == self._seen:
            return
        self._seen, self.nodes = seen, {}
        left = MAX_BYTES
        for path in files:
            with suppress(OSError), open_regular(path) as file:  # the oldest goes when a new one is begun
                data = file.read(left)
                left -= len(data)
                for line in data.splitlines():
                    self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            found = msgspec.json.decode(line)
        except DECODE_ERRORS:
            return  # a torn line costs only itself
        at_s = found.get("t_s") if isinstance(found, dict) else None
        if not _is_number(at_s):
            return
        name = str(found.get("node", ""))[:256]
        if name not in self.nodes and len(self.nodes) >= MAX_NODES:
            return
        lanes = self.nodes.setdefault(name, {})
        for quantity, value in _numbers(found, "", 0):
            lane = lanes.get(quantity)
            if lane is None:
                if len(lanes) >= MAX_LANES or HIDDEN_LANES.fullmatch(quantity):
                    continue
                lane = lanes[quantity] = Lane([], [])
            lane.at_s.append(float(at_s))
            lane.values.append(value)

    def lanes(self, node: str) -> dict[str, Lane]:
        """Those of a node that were ever more than nothing, the ones one asks for first at the top."""
        known = self.nodes.get(node, {})
        telling = [(name, lane) for name, lane in known.items() if any(lane.values)]
        return dict(sorted(telling, key=lambda lane: (lane_place(lane[0]), lane[0])))


def newest_sample(folder: Path) -> MachineRow | None:
    """The last whole sample in the run folder ``folder``; None where there is none."""
    with suppress(OSError), open_regular(folder / FOLDER / "series.jsonl") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_LINE))
        for line in reversed(file.read(MAX_LINE).splitlines()):
            with suppress(*DECODE_ERRORS):  # torn, or the head of the file
                return msgspec.json.decode(line, type=MachineRow)
    return None


def _files(folder: Path) -> list[Path]:
    """Oldest first: ``series.2.jsonl``, ``series.1.jsonl``, ``series.jsonl``."""
    try:
        found = [(match, path) for path in folder.iterdir() if (match := NAME.fullmatch(path.name)) and path.is_file()]
    except OSError:
        return []
    return [path for _, path in sorted((-int(match[1] or 0), path) for match, path in found)]


def _seen(path: Path) -> tuple[str, int, int]:
    """Changes when the file does."""
    with suppress(OSError):
        found = path.stat()
        return path.name, found.st_ino, found.st_size
    return path.name, 0, 0


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _numbers(value: Any, name: str, depth: int) -> Iterator[tuple[str, float]]:
    """Every number of a line by a name (``card 0 util``, ``net eth0 rx_bps``); of a list of words how many they are."""
    if _is_number(value) and name:
        yield name, float(value)
    elif depth > 3:
        return
    elif isinstance(value, dict):
        for key, part in value.items():
            if (depth or key not in ("t_s", "node", "schema")) and key not in ("index", "uuid", "pid"):
                yield from _numbers(part, f"{name} {str(key)[:64]}".strip(), depth + 1)
    elif isinstance(value, list):
        if name == "others" or name.endswith("throttle"):
            yield name, float(len(value))
        elif name == "cards":
            for at, part in enumerate(value[:16]):
                number = part.get("index", at) if isinstance(part, dict) else at
                yield from _numbers(part, f"card {str(number)[:8]}", depth + 1)
