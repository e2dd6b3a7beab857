"""Traces as torch.profiler writes them, small and made up: ops first, Python functions behind them, then the card's."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAIN = 100


@dataclass
class Sample:
    """One trace. Times are milliseconds here and microseconds in the file."""

    rank: int | None = 0
    world_size: int = 2
    events: list[dict[str, Any]] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=dict)

    def add(self, cat: str, name: str, start: float, length: float, *, tid: Any = MAIN, **args: Any) -> None:
        """One event with a duration."""
        event = {"ph": "X", "cat": cat, "name": name, "pid": MAIN, "tid": tid, "ts": 4e12 + 1e3 * start}
        self.events.append({**event, "dur": 1e3 * length, "args": args})

    def text(self) -> str:
        """As Kineto lays it out."""
        info = {"backend": "gloo", "rank": self.rank, "world_size": self.world_size}
        head = {"schemaVersion": 1, "deviceProperties": [], **self.head}
        if self.rank is not None:
            head["distributedInfo"] = info
        order = ("user_annotation", "cpu_op", "cuda_runtime", "python_function", "kernel")
        events = sorted(self.events, key=lambda e: (order.index(e["cat"]) if e["cat"] in order else 9, e["ts"]))
        body = ",\n".join(json.dumps(event, indent=2) for event in events)
        return f'{json.dumps(head)[:-1]},\n  "traceEvents": [\n{body}\n],\n  "traceName": "t.json"\n}}\n'

    def write(self, path: Path) -> Path:
        """To ``path``, packed where its name says so."""
        path.parent.mkdir(parents=True, exist_ok=True)
        data = self.text().encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path


def training(
    rank: int = 0, *, steps: int = 12, work_ms: float = 2.0, wait_ms: float = 5.0, first: int = 0, jitter: float = 0.02
) -> Sample:
    """A rank whose step computes for 10 ms, writes for ``work_ms`` and waits for others for ``wait_ms``."""
    sample, now = Sample(rank), 0.0
    whole = steps * (10 + work_ms + wait_ms) * 2
    sample.add("python_function", "train.py(30): main", -1, whole)
    for step in range(first, first + steps):
        by = 1 + jitter * ((step * 7919) % 13 - 6) / 6
        parts = (10 * by, work_ms * by, wait_ms * by)
        sample.add("user_annotation", f"ProfilerStep#{step}", now, sum(parts))
        sample.add("cpu_op", "aten::mm", now + 0.1, parts[0] - 0.2)
        sample.add("python_function", "train.py(7): write", now + parts[0], parts[1])
        sample.add("python_function", "<built-in function sleep>", now + parts[0], parts[1])
        begin = now + parts[0] + parts[1]
        sample.add("python_function", "torch/distributed/distributed_c10d.py(3155): all_reduce", begin, parts[2])
        sample.add("python_function", f"<built-in method wait of PyCapsule object at 0x7f{step:06x}>", begin, parts[2])
        now += sum(parts)
    return sample
