"""``series/ranks.jsonl``: how every rank of a run went, a line of JSON for some seconds of a rank.

The first line is ``{"schema": …, "width_s": …}``; a place is written once, ``{"site": N, "place": [FILE, LINE,
FUNCTION]}``, and named by its number. Rows of thousands of ranks are one line, by column: most ranks are alike.
``{"stretch": {"rows": N, "rank": …, "step": …, …, "mixes": […]}}``. A column is one number where all rows have the
same, else the least one and what each row has more. Ranks are counted from the place of their row, times are whole
parts of a second (``SCALES``), and ``doing`` is a place in ``mixes``.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

SCHEMA = "unhang.series/1"
SERIES_PATH = Path("series") / "ranks.jsonl"
MAX_ROWS = 1 << 14
"""Of one line."""
Column = int | list[int]
ActivityCount = tuple[int, str, bool, int]
SCALES = {
    "rank": 1,
    "attempt": 1,
    "at_s": 10,
    "step": 1,
    "steps": 1,
    "took_s": 1_000,
    "longest_s": 1_000,
    "for_s": 10,
    "calls": 1,
    "calls_a_step": 1,
    "looks": 1,
    "waits": 1,
}


MAX_INTEGER = 1 << 53
_SUMS = ("steps", "took_s", "for_s", "looks", "waits")


class ColumnBlock(msgspec.Struct):
    """A line that is a block of rows, by column."""

    rows: int
    rank: Column
    attempt: Column
    at_s: Column
    step: Column
    steps: Column
    took_s: Column
    longest_s: Column
    for_s: Column
    calls: Column
    calls_a_step: Column
    looks: Column
    waits: Column
    doing: Column
    mixes: list[tuple[ActivityCount, ...]]


class Line(msgspec.Struct):
    """A line: the head, the number of a place, or a row. ``looks``: samples in the row, ``waits``: those in which the
    rank stood in communication; ``doing``: (site, phase, whether it waited, samples)."""

    schema: str = ""
    width_s: float = 1.0
    site: int = -1
    place: tuple[str, int, str] = ("", 0, "")
    rank: int = -1
    attempt: int = 0
    at_s: float = 0.0
    step: int = 0
    steps: float = 0.0
    took_s: float = 0.0
    longest_s: float = 0.0
    for_s: float = 0.0
    calls: int = 0
    calls_a_step: int = 0
    looks: int = 0
    waits: int = 0
    doing: tuple[ActivityCount, ...] = ()
    stretch: ColumnBlock | None = None


def read_lines(lines: Iterable[bytes]) -> Iterator[Line | None]:
    """The lines, and those of a block one by one; None where one is torn."""
    decoder = msgspec.json.Decoder(Line)
    for line in lines:
        try:
            found = decoder.decode(line)
            if found.stretch is None:
                yield found
            else:
                yield from [Line(**row) for row in unpack_rows(found.stretch)]
        except (ValueError, RecursionError):  # noqa: PERF203 - a torn line costs only itself
            yield None


def pack_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """At most ``MAX_ROWS`` rows as one document; those of neighbouring ranks in a row take least."""
    mixes: dict[tuple[Any, ...], int] = {}
    doing = [mixes.setdefault(tuple(tuple(seen) for seen in row["doing"]), len(mixes)) for row in rows]
    columns = {name: [round(row[name] * scale) for row in rows] for name, scale in SCALES.items()}
    columns["rank"] = [rank - place for place, rank in enumerate(columns["rank"])]
    found: dict[str, Any] = {name: _column(values) for name, values in columns.items()}
    return {"stretch": {"rows": len(rows), **found, "doing": _column(doing), "mixes": list(mixes)}}


def unpack_rows(stretch: ColumnBlock) -> Iterator[dict[str, Any]]:
    """The rows again.

    Raises:
        ValueError: the columns do not fit together.
    """
    count = stretch.rows
    names = [*SCALES, "doing"]
    columns = [_values(getattr(stretch, name), count) for name in names]
    scales = [*SCALES.values(), 1]
    for place, told in enumerate(zip(*columns, strict=True)):
        row: dict[str, Any] = {
            name: value / scale if scale > 1 else value for name, value, scale in zip(names, told, scales, strict=True)
        }
        row["rank"] += place
        if not 0 <= row["doing"] < len(stretch.mixes):
            raise ValueError("a mix that is not there")
        row["doing"] = stretch.mixes[row["doing"]]
        yield row


def merge_blocks(first: ColumnBlock, second: ColumnBlock, max_seen: int) -> dict[str, Any] | None:
    """Two neighbouring lines as one; None where they are not of the same ranks, or one of these was started again.

    Raises:
        ValueError: the columns do not fit together.
    """
    if (first.rows, first.rank, first.attempt) != (second.rows, second.rank, second.attempt):
        return None
    count = first.rows
    if any(map(operator.gt, _values(first.step, count), _values(second.step, count))):
        return None
    found = {name: getattr(second, name) for name in (*SCALES, "rows")}
    for name in (*_SUMS, "longest_s"):
        both = _values(getattr(first, name), count), _values(getattr(second, name), count)
        found[name] = _column(list(map(max if name == "longest_s" else operator.add, *both)))
    pairs: dict[tuple[int, int], int] = {}
    doing = zip(_values(first.doing, count), _values(second.doing, count), strict=True)
    found["doing"] = _column([pairs.setdefault(pair, len(pairs)) for pair in doing])
    if any(not (0 <= a < len(first.mixes) and 0 <= b < len(second.mixes)) for a, b in pairs):
        raise ValueError("a mix that is not there")
    found["mixes"] = [_mixed(first.mixes[a], second.mixes[b], max_seen) for a, b in pairs]
    return {"stretch": found}


def _mixed(first: tuple[ActivityCount, ...], second: tuple[ActivityCount, ...], max_seen: int) -> list[list[Any]]:
    looks: Counter[tuple[int, str, bool]] = Counter()
    for site, phase, waits, count in (*first, *second):
        looks[site, phase, waits] += count
    return [[*what, count] for what, count in looks.most_common(max_seen)]


def _column(values: list[int]) -> Column:
    least = min(values)
    return least if max(values) == least else [least, *(value - least for value in values)]


def _values(column: Column, count: int) -> list[int]:
    if not 0 <= count <= MAX_ROWS:
        raise ValueError(f"{count} rows in one line")
    told = [column] if isinstance(column, int) else column
    if told and not -MAX_INTEGER <= min(told) <= max(told) <= MAX_INTEGER:
        raise ValueError("a number that no rank has")
    if isinstance(column, int):
        return told * count
    if len(column) != count + 1:
        raise ValueError("columns of different length")
    return [column[0] + more for more in column[1:]]
