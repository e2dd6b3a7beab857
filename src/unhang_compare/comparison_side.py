"""What one side of a comparison holds: a run folder, a trace, or a folder of traces."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from unhang.errors import EvidenceError, UsageError
from unhang.evidence.found_files import links_outside
from unhang.evidence.profiler_trace import looks_like_trace, read_trace_head
from unhang.findings import NotChecked, Source, Unread
from unhang.sentences import say
from unhang.view.regular_files import read_json_as, read_limited
from unhang.wire.documents.pace import read_pace
from unhang.wire.documents.rank_series import SERIES_PATH as SERIES
from unhang.wire.documents.run_settings import RunSettings, read_run_settings
from unhang_compare.kineto.reading import Seen, read_trace
from unhang_compare.rank_times import RankTimes, read_rank_series
from unhang_compare.time_growth import pool_ranks

TRACE, RUN = "trace", "run"
MAX_FILES = 20_000
MAX_BYTES = 16 << 20
_TRACE_NAME = re.compile(r"\.json(?:\.gz)?$", re.IGNORECASE)
_RUN_FILES = ("run.json", "settings.json", "bundle.json", str(SERIES), "machine/pace.json")
_RANGE = re.compile(r"(\d{1,15})?(?::(\d{1,15})?)?")


@dataclass(slots=True)
class ComparisonSide:
    """One side. ``ranks`` may be empty; ``told``: versions, cards and sizes as traces or a bundle tell them."""

    name: str
    kind: str
    ranks: list[RankTimes] = field(default_factory=list)
    settings: RunSettings | None = None
    told: dict[str, str] = field(default_factory=dict)
    world_size: int | None = None
    missing: list[NotChecked] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)


def read_side(text: str, seen: Seen = lambda _count, _name: None, copy: Path | None = None) -> ComparisonSide:
    """Everything one argument names; ``copy``: where on this machine a copy of what a URL names lies.

    Raises UsageError where it is nothing of the kind, EvidenceError where nothing of it can be read.
    """
    path = copy or Path(text).expanduser()
    if not path.exists():
        raise UsageError(f"{text} does not exist", next_step="name a run folder of unhang run, or a profiler trace")
    if path.is_dir():
        found = any((path / name).is_file() for name in _RUN_FILES)
        side = _run(text, path) if found else _traces(text, _trace_files(path), seen)
    elif looks_like_trace(read_trace_head(path)):
        side = _traces(text, [path], seen)
    else:
        raise UsageError(
            f"{text} is not a torch.profiler trace",
            next_step="compare reads run folders of unhang run, and traces as export_chrome_trace writes them",
        )
    return side if copy is None else _as_named(side, str(copy), text)


def _as_named(side: ComparisonSide, copy: str, url: str) -> ComparisonSide:
    """``side`` with its sources as they are called behind the URL."""

    def there(source: Source) -> Source:
        return replace(source, path=source.path.replace(copy, url))

    ranks = [replace(one, source=there(one.source)) for one in side.ranks]
    return replace(side, ranks=ranks, unread=[replace(one, source=there(one.source)) for one in side.unread])


def is_compared(name: str) -> bool:
    """Whether a comparison reads the file ``name`` of those below a URL: the few of a run, or its traces."""
    evidence = name.split("/", maxsplit=1)[0] in ("dumps", "stacks", "logs", "source")
    return name in _RUN_FILES or (not evidence and _TRACE_NAME.search(name) is not None)


def input_size(text: str) -> int:
    """Bytes that reading will take, for a progress bar."""
    path = Path(text).expanduser()
    files = _trace_files(path) if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _trace_files(folder: Path) -> list[Path]:
    found: list[Path] = []
    root = os.path.realpath(folder)
    for path in sorted(folder.rglob("*.json*")):
        if links_outside(path, [root]):
            continue
        if _TRACE_NAME.search(path.name) and path.is_file() and len(found) < MAX_FILES:
            found.append(path)
    return found


# traces


def _traces(name: str, files: list[Path], seen: Seen) -> ComparisonSide:
    side = ComparisonSide(name, TRACE)
    by_rank: dict[int | None, list[RankTimes]] = defaultdict(list)
    for path in files:
        if len(files) > 1 and not looks_like_trace(read_trace_head(path)):
            continue
        found = read_trace(path, seen=seen)
        if isinstance(found, Unread):
            side.unread.append(found)
            continue
        side.unread.extend(found.unread)
        side.told.update(found.told)
        side.world_size = found.world_size or side.world_size
        by_rank[found.rank].append(found)
    if not by_rank:
        reasons = "; ".join(f"{item.source.path}: {item.reason}" for item in side.unread[:3])
        if not reasons:
            raise UsageError(
                f"{name} contains neither a run of unhang run nor a torch.profiler trace",
                next_step="record one: docs/compare.md says how",
            )
        raise EvidenceError(f"no trace in {name} can be read: {reasons}")
    side.ranks = [_of_one_rank(by_rank[rank], side) for rank in sorted(by_rank, key=lambda r: (r is None, r or 0))]
    if not any(times.with_stacks for times in side.ranks):
        side.missing.append(
            NotChecked(
                say("The lines of the program in {name}", name=name),
                say("the trace has no Python stacks: record it with with_stack=True"),
                "",
            )
        )
    return side


def _of_one_rank(traces: list[RankTimes], side: ComparisonSide) -> RankTimes:
    """Traces of one rank in order of their steps; of two that hold the same steps the later file."""
    kept: dict[int, RankTimes] = {}
    for times in traces:
        first = int(times.last_step[0])
        if first in kept:
            side.unread.append(Unread(kept[first].source, "holds the same steps as a later file of this rank"))
        kept[first] = times
    return pool_ranks([kept[first] for first in sorted(kept)])


# runs


def _run(name: str, folder: Path) -> ComparisonSide:
    side = ComparisonSide(name, RUN)
    side.settings = _settings(folder, side)
    _bundle(folder, side)
    series = folder / SERIES
    if series.is_file():
        found = read_rank_series(series, source=Source(str(series)))
        if isinstance(found, Unread):
            side.unread.append(found)
        else:
            side.ranks = list(found)
            side.unread.extend(unread for times in found[:1] for unread in times.unread)
    else:
        side.ranks = list(_earlier_pace(folder, side))
    if not side.ranks and not side.unread:
        because, how = (
            (say("the program did not call unhang.step(), and its collectives showed no rhythm"), "")
            if series.is_file()
            else (
                say("the run left no series of its ranks; it was recorded by an older version, or by hand"),
                "unhang run -- CMD",
            )
        )
        side.missing.append(NotChecked(say("The steps of {name}", name=name), because, how))
    return side


def _settings(folder: Path, side: ComparisonSide) -> RunSettings | None:
    path = folder / "settings.json"
    try:
        raw = read_limited(path, MAX_BYTES)
    except OSError:
        side.missing.append(
            NotChecked(
                say("The settings of {name}", name=side.name),
                say("the run left no settings.json; it was recorded by an older version, or by hand"),
                "unhang run -- CMD",
            )
        )
        return None
    found = read_run_settings(raw, source=Source(str(path)))
    if isinstance(found, Unread):
        side.unread.append(found)
        return None
    side.world_size = found.world_size
    return found


def _bundle(folder: Path, side: ComparisonSide) -> None:
    """What an older run tells of itself."""
    for name, keys in (("bundle.json", ("torch_version", "backend", "world_size")), ("run.json", ("command",))):
        found: dict[str, Any] = read_json_as(folder / name, dict, MAX_BYTES) or {}
        for key in keys:
            value = found.get(key)
            if isinstance(value, list):
                value = " ".join(str(word) for word in value)
            if isinstance(value, str | int) and value != "":
                word = {"torch_version": "torch", "world_size": "ranks"}.get(key, key)
                side.told[word] = str(value)[:400]
    if side.world_size is None and side.told.get("ranks", "").isdecimal():
        side.world_size = int(side.told["ranks"])


def _earlier_pace(folder: Path, side: ComparisonSide) -> Iterator[RankTimes]:
    """The history of steps in ``machine/pace.json``, where there is no series."""
    path = folder / "machine" / "pace.json"
    try:
        raw = read_limited(path, MAX_BYTES)
    except OSError:
        return
    found = read_pace(raw, source=Source(str(path)))
    if isinstance(found, Unread):
        side.unread.append(found)
        return
    for rank in found.ranks:
        steps = [(step, seconds) for step, seconds in rank.steps if seconds > 0]
        if len(steps) > 1:
            numbers = np.array([step for step, _ in steps], np.int64)
            weights = np.maximum(np.diff(numbers, prepend=2 * numbers[0] - numbers[1]), 1).astype(np.float64)
            seconds = np.array([seconds for _, seconds in steps])
            yield RankTimes(found.source, rank.rank, numbers, weights, seconds, with_stacks=False)


# spans


def parse_span(text: str, option: str) -> tuple[int, int]:
    """``100:200``, ``1900:``, ``:50`` or ``7`` as (first, last)."""
    found = _RANGE.fullmatch(text.strip())
    if not text.strip() or found is None or text.strip() == ":":
        raise UsageError(f"{option} expects steps like 100:200, not {text!r}")
    first = int(found[1] or 0)
    last = int(found[2]) if found[2] else first if ":" not in text else 1 << 62
    if last < first:
        raise UsageError(f"{option} {text}: the last step comes before the first")
    return first, last


def parse_numbers(text: str, option: str) -> tuple[int, ...]:
    """``0,4-7`` as (0, 4, 5, 6, 7)."""
    found: list[int] = []
    for part in text.replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 20:
            raise UsageError(f"{option} expects ranks like 0,4-7, not {text!r}")
        begin, end = int(first), int(last or first)
        if end < begin or end - begin > 1 << 20:
            raise UsageError(f"{option} expects ranks like 0,4-7, not {text!r}")
        found += range(begin, end + 1)
    return tuple(dict.fromkeys(found))


def select_steps(side: ComparisonSide, steps: tuple[int, int], option: str) -> ComparisonSide:
    """Only samples that lie in these steps; a sample of several steps counts with most of them inside."""
    kept = []
    for times in side.ranks:
        middle = times.last_step - (times.steps - 1) / 2
        inside = (middle >= steps[0]) & (middle <= steps[1])
        if not inside.any():  # a sample is longer than the span
            inside = (times.last_step >= steps[0]) & (times.last_step - times.steps + 1 <= steps[1])
        if inside.any():
            kept.append(times.cut(inside))
    if not kept and side.ranks:
        last = max(int(times.last_step.max()) for times in side.ranks)
        first = min(int(times.last_step[0] - times.steps[0] + 1) for times in side.ranks)
        raise UsageError(f"{option}: {side.name} has no such steps; it has {max(0, first)}:{last}")
    return replace(side, ranks=kept)


def select_ranks(side: ComparisonSide, ranks: tuple[int, ...], option: str) -> ComparisonSide:
    """Only these ranks."""
    kept = [times for times in side.ranks if times.rank in ranks]
    if not kept and side.ranks:
        known = ", ".join(str(times.rank) for times in side.ranks[:16])
        raise UsageError(f"{option}: {side.name} has none of these ranks; it has {known}")
    return replace(side, ranks=kept)
