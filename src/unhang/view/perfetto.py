"""A run for Perfetto and ``chrome://tracing``: nodes as processes, ranks as threads, stalls and machine counters too.

The Trace Event Format, which both read (https://perfetto.dev/docs/getting-started/other-formats, 2026-11).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from unhang.errors import UsageError
from unhang.view.episodes import stall_spans
from unhang.view.machine_series import MachineSeries
from unhang.view.reading import RunReading
from unhang.view.series_reading import WAITS, RankRows, SeriesRow
from unhang.watch import private_files
from unhang.wire.documents.live_state import LiveState
from unhang.wire.record_views import PHASES

Event = dict[str, Any]


def write_trace(reading: RunReading, target: Path) -> int:
    """Write the trace to ``target``, packed if it ends in ``.gz``; returns the number of events.

    Raises:
        UsageError: nothing of the run's course was kept, or ``target`` cannot be written.
    """
    rows = RankRows(reading.folder)
    rows.read()
    if not rows.rows:
        raise UsageError(
            f"{reading.folder} has no series of its ranks (series/ranks.jsonl)", next_step="unhang run writes it"
        )
    try:
        private_files.write(target, b"")  # private to the user from its first byte
        with gzip.open(target, "wt") if target.suffix == ".gz" else target.open("w", encoding="utf-8") as file:
            return _write(file, _events(reading, rows))
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror or error})") from error


def _write(file: IO[str], events: Iterator[Event]) -> int:
    count = 0
    file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
    for count, event in enumerate(events, 1):
        file.write(("" if count == 1 else ",\n") + json.dumps(event, separators=(",", ":")))
    file.write("\n]}\n")
    return count


def _events(reading: RunReading, series: RankRows) -> Iterator[Event]:
    by_rank: dict[int, list[SeriesRow]] = {}
    for row in series.rows:
        by_rank.setdefault(row.rank, []).append(row)
    origin_s = min(row.end_s - row.for_s for row in series.rows)
    end_s = max(row.end_s for row in series.rows)
    run = max(by_rank) + 1  # numbers of processes are none of a rank: Perfetto takes such a thread for the main one
    nodes, names = _nodes(reading.state, run + 1)
    for at, name in enumerate(("run", *names), run):
        yield _named("process_name", at, 0, name or "node")
        yield {"ph": "M", "name": "process_sort_index", "pid": at, "tid": 0, "args": {"sort_index": at}}
    for rank, rows in sorted(by_rank.items()):
        node = nodes.get(rank, run + 1)
        yield _named("thread_name", node, rank, f"rank {rank}")
        yield {"ph": "M", "name": "thread_sort_index", "pid": node, "tid": rank, "args": {"sort_index": rank}}
        yield from _slices(rows, node, series.sites, origin_s)
    yield from _stalls(reading.folder, run, origin_s, end_s)
    yield from _counters(reading.folder, run, names, origin_s)


def _nodes(state: LiveState | None, first: int) -> tuple[dict[int, int], list[str]]:
    """The process of every rank, and the names of the processes from ``first`` on."""
    if state is None or not state.run.nodes:
        return {}, [""]
    ranks = state.ranks
    return {rank: max(0, node) + first for rank, node in zip(ranks.rank, ranks.node, strict=True)}, state.run.nodes


def _named(what: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _slices(rows: list[SeriesRow], node: int, sites: list[str], origin_s: float) -> Iterator[Event]:
    """One slice for rows in a row that show mostly the same, at the same line."""
    start = 0
    for at in range(1, len(rows) + 1):
        if at < len(rows) and _goes_on(rows[at - 1], rows[at]):
            continue
        first, last = rows[start], rows[at - 1]
        start = at
        if first.most < 0:
            continue
        begin_s = first.end_s - first.for_s
        phase, waits = PHASES[first.most % WAITS], first.most >= WAITS
        yield {
            "ph": "X",
            "name": f"{phase} (waits)" if waits else phase,
            "cat": "wait" if waits else "phase",
            "pid": node,
            "tid": first.rank,
            "ts": _us(begin_s - origin_s),
            "dur": _us(last.end_s - begin_s),
            "args": {"line": sites[first.site] if first.site >= 0 else "", "step": last.step},
        }


def _goes_on(before: SeriesRow, row: SeriesRow) -> bool:
    touches = row.end_s - row.for_s - before.end_s < 0.5
    return touches and (before.most, before.site) == (row.most, row.site)


def _stalls(folder: Path, run: int, origin_s: float, end_s: float) -> Iterator[Event]:
    for episode in stall_spans(folder):
        since_s = episode.since_s if episode.since_s is not None else episode.said_s
        until_s = max(episode.taken_s, since_s) if episode.past else max(end_s, episode.taken_s)
        name = f"stall: {episode.cause}" if episode.cause else "stall"
        where = {"pid": run, "tid": run}
        yield _named("thread_name", run, run, "stalls")
        yield {
            "ph": "X",
            "name": name,
            "cat": "stall",
            **where,
            "ts": _us(since_s - origin_s),
            "dur": _us(until_s - since_s),
        }
        yield {
            "ph": "i",
            "name": f"verdict: {episode.cause}",
            "cat": "verdict",
            "s": "t",
            **where,
            "ts": _us(episode.said_s - origin_s),
        }


def _counters(folder: Path, run: int, names: list[str], origin_s: float) -> Iterator[Event]:
    machine = MachineSeries(folder)
    machine.read()
    for node in machine.nodes:
        process = names.index(node) + run + 1 if node in names else run
        for name, lane in machine.lanes(node).items():
            shown = name if process != run or not node else f"{node} {name}"
            for at_s, value in zip(lane.at_s, lane.values, strict=True):
                yield {"ph": "C", "name": shown, "pid": process, "ts": _us(at_s - origin_s), "args": {"value": value}}


def _us(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
