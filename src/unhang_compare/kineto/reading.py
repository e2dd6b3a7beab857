"""Read one trace: events into columns, the steps among them, then where the time of every step went."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from unhang.evidence.bounded_streams import STREAM_ERRORS
from unhang.evidence.file_names import rank_from_name
from unhang.evidence.profiler_trace import open_trace
from unhang.findings import Source, Unread
from unhang_compare.kineto.columns import EVENT, EventColumns, Events
from unhang_compare.kineto.event_stream import StreamState, TraceEvent, read_events
from unhang_compare.kineto.names import IGNORED_CATEGORIES, EventNames
from unhang_compare.kineto.sweep import TimeAttribution
from unhang_compare.rank_times import RankTimes

MAX_SAMPLES = 1024
"""Of more steps several make one sample."""
MAX_STEPS = 1 << 20
_TOLD_BYTES = 1 << 20
Seen = Callable[[int, str], None]


class _Trace:
    """What is gathered while events come in."""

    def __init__(self) -> None:
        self.names = EventNames()
        self.columns = EventColumns()
        self.threads: dict[tuple[int | str, int | str], int] = {}
        self.busy: Counter[int] = Counter()
        self.steps: list[tuple[float, float, int, int]] = []
        """(begin, end, number, thread)."""
        self.optimizers: list[tuple[float, float, int, int]] = []
        self.first = self.last = 0.0
        self.cards = self.python = False

    def take(self, events: list[TraceEvent]) -> None:
        """Keep what has a duration."""
        kept = [
            e
            for e in events
            if e.ph == "X" and e.cat not in IGNORED_CATEGORIES and 0 <= e.dur < 1e13 and abs(e.ts) < 1e18
        ]
        if not kept:
            return
        rows = np.zeros(len(kept), EVENT)
        if not len(self.columns):
            self.first = kept[0].ts
        rows["start"] = [(e.ts - self.first) / 1e6 for e in kept]
        rows["end"] = rows["start"] + np.array([e.dur / 1e6 for e in kept])
        number, thread = self.names.number, self._thread
        rows["name"] = [number(e.cat, e.name) for e in kept]
        rows["thread"] = [thread(e) for e in kept]
        rows["external"] = [_external(e) for e in kept]
        self._note(rows)
        self.columns.add(rows)

    def _thread(self, event: TraceEvent) -> int:
        return self.threads.setdefault((event.pid, event.tid), len(self.threads))

    def _note(self, rows: Events) -> None:
        known = self.names.known
        for name in np.unique(rows["name"]).tolist():
            meant = known[name]
            self.cards |= meant.card
            self.python |= meant.where is not None
            if meant.step is None and not meant.optimizer:
                continue
            found = self.steps if meant.step is not None else self.optimizers
            for row in rows[rows["name"] == name].tolist():
                if len(found) < MAX_STEPS:
                    found.append((row[0], row[1], meant.step or 0, row[3]))
        on_cards = np.array([meant.card for meant in known], bool)[rows["name"]]
        threads, counts = np.unique(rows["thread"][~on_cards], return_counts=True)
        self.busy.update(dict(zip(threads.tolist(), counts.tolist(), strict=True)))
        self.last = max(self.last, float(rows["end"].max()))


def read_trace(path: Path, *, seen: Seen = lambda _count, _name: None) -> RankTimes | Unread:
    """Where the steps of one rank went. ``seen`` hears bytes read, and of which file."""
    source = Source(str(path))
    reading, trace = StreamState(), _Trace()
    try:
        with open_trace(path) as stream:
            done = 0
            for events in read_events(stream, reading):
                trace.take(events)
                seen(reading.size - done, source.path)
                done = reading.size
        if not len(trace.columns):
            return Unread(source, reading.trouble or "is a trace without a single event that lasts")
        return _judged(trace, reading, source)
    except STREAM_ERRORS as error:
        return Unread(source, f"cannot be read ({getattr(error, 'strerror', None) or error})")
    finally:
        trace.columns.close()


def _judged(trace: _Trace, reading: StreamState, source: Source) -> RankTimes:
    told = _metadata(reading)
    main, bounds, numbers, weights = _samples(trace)
    sweep = TimeAttribution(trace.names.known, bounds, main, cards=trace.cards)
    for events in trace.columns.in_order():
        sweep.take(events)
    steps = np.array(weights, np.float64)
    spent = {activity: np.frombuffer(seconds) / steps for activity, seconds in sweep.result().items()}
    info = told.get("distributedInfo") or {}
    found = info.get("rank") if isinstance(info, dict) else None
    size = info.get("world_size") if isinstance(info, dict) else None
    return RankTimes(
        source,
        found if _is_count(found) else rank_from_name(source.path),
        np.array(numbers, np.int64),
        steps,
        np.array([end - begin for begin, end in bounds]) / steps,
        spent,
        with_stacks=trace.python,
        world_size=size if _is_count(size) else None,
        told=_facts(told),
        unread=tuple(_troubles(reading, sweep, source)),
    )


def _samples(trace: _Trace) -> tuple[int, list[tuple[float, float]], list[int], list[int]]:
    """The thread the steps are on, and of every sample its bounds, its last step's number and how many steps it holds.

    Where the profiler was not told of steps, one ends with each step of the optimizer; without one the whole trace is
    one sample.
    """
    by_thread = Counter(thread for *_, thread in trace.steps or trace.optimizers)
    usual = trace.busy.most_common(1)[0][0] if trace.busy else -1
    main = by_thread.most_common(1)[0][0] if by_thread else usual
    steps = sorted(step for step in trace.steps if step[3] == main)
    if not steps:
        ends = sorted(end for _, end, _, thread in trace.optimizers if thread == main)
        steps = [(begin, end, at, main) for at, (begin, end) in enumerate(pairwise(ends), 1)]
    steps = [step for step in steps if step[1] > step[0]]
    if not steps:
        return main, [(0.0, max(trace.last, 1e-9))], [0], [1]
    width = -(-len(steps) // MAX_SAMPLES)
    groups = [steps[at : at + width] for at in range(0, len(steps), width)]
    bounds: list[tuple[float, float]] = []
    for group in groups:
        begin = max(group[0][0], bounds[-1][1]) if bounds else group[0][0]
        last = max(step[1] for step in group)
        bounds.append((begin, max(begin + 1e-9, last)))
    return main, bounds, [group[-1][2] for group in groups], [len(group) for group in groups]


def _external(event: TraceEvent) -> int:
    found = event.args.external if event.args is not None else None
    if isinstance(found, str):
        found = int(found) if found.isdecimal() and len(found) < 10 else None
    return found if found is not None and 0 <= found < 1 << 31 else -1


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 24


def _troubles(reading: StreamState, sweep: TimeAttribution, source: Source) -> list[Unread]:
    found = [Unread(source, reading.trouble)] if reading.trouble else []
    if reading.damaged:
        found.append(Unread(source, f"{reading.damaged} of its events are damaged and were left out"))
    if sweep.folded:
        found.append(Unread(source, "holds more different calls than are kept apart; rare ones were put together"))
    return found


def _metadata(reading: StreamState) -> dict[str, Any]:
    """What stands before and behind the events."""
    found: dict[str, Any] = {}
    text = (reading.head[-_TOLD_BYTES:] + b"\n" + reading.tail[-_TOLD_BYTES:]).decode("utf-8", "replace")
    for match in re.finditer(r'"(\w{1,64})"\s*:\s*', text):
        if match[1] in _FACTS or match[1] in ("distributedInfo", "deviceProperties"):
            try:
                found[match[1]] = json.JSONDecoder().raw_decode(text, match.end())[0]
            except (ValueError, RecursionError):
                continue
    return found


_FACTS = {
    "cuda_runtime_version": "cuda",
    "cuda_driver_version": "cuda of the driver",
    "hip_runtime_version": "hip",
    "cupti_version": "cupti",
}


def _facts(told: dict[str, Any]) -> dict[str, str]:
    found = {word: str(told[key])[:100] for key, word in _FACTS.items() if isinstance(told.get(key), int | str)}
    info = told.get("distributedInfo")
    if isinstance(info, dict):
        for key, word in (("backend", "backend"), ("world_size", "ranks"), ("nccl_version", "nccl")):
            if isinstance(info.get(key), int | str):
                found[word] = str(info[key])[:100]
    cards = told.get("deviceProperties")
    if isinstance(cards, list):
        kinds = Counter(str(card.get("name", "?"))[:100] for card in cards if isinstance(card, dict))
        if kinds:
            found["cards"] = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
    return found
