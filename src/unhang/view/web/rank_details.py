"""Everything about one rank: its stack as the last sample saw it, or as its record tells now; its last lines of log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unhang.report.localizer import Localizer
from unhang.view.reading import RunReading
from unhang.view.regular_files import read_json_as
from unhang.wire.documents.bundle import BundleManifest, rank_of_file, read_manifest
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.record import find_record
from unhang.wire.record_views import RecordView

MAX_STACK = 96 << 10
MAX_LOG = 48 << 10
MAX_LINES = 60
MAX_LOG_FILES = 20_000


def rank_details(reading: RunReading, rank: int, localizer: Localizer) -> dict[str, Any]:
    """Stacks and log lines of ``rank``, cleaned; what is not there is empty."""
    folder = reading.folder
    record = _record(reading, rank)
    look = _tail_of(_first(_stacks(folder, rank)), MAX_STACK, from_start=True)
    return {
        "rank": rank,
        "now": _frames(record, localizer) if record is not None else [],
        "groups": [] if record is None else _groups(record, localizer),
        "look": localizer.clean(look),
        "logs": [
            {"name": localizer.line(path.relative_to(folder).as_posix()), "lines": _lines(path, localizer)}
            for path in _logs(folder, rank)
        ],
    }


def _record(reading: RunReading, rank: int) -> RecordView | None:
    plan = read_json_as(reading.folder / "run.json", RunPlan) if reading.live else None
    return find_record(Path(plan.records), rank) if plan is not None and plan.records else None


def _frames(record: RecordView, localizer: Localizer) -> list[dict[str, Any]]:
    """The frames of the thread that issues collectives, innermost first; ``own``: a line of the user's program."""
    frames = []
    for text in record.stack.splitlines():
        file, _, rest = text.partition(":")
        line, _, function = rest.partition(":")
        own = file == record.user.file
        frames.append(
            {"file": localizer.line(file), "line": line[:9], "function": localizer.line(function, 200), "own": own}
        )
    return frames


def _groups(record: RecordView, localizer: Localizer) -> list[list[Any]]:
    return [[localizer.line(group.name, 40), group.enqueued, group.completed] for group in record.groups[:32]]


def _places(folder: Path) -> Iterator[Path]:
    """The run folder, and below it those of other machines."""
    yield folder
    for below in (folder, folder / "nodes"):
        yield from sorted(path.parent for path in below.glob("*/bundle.json"))[:4096]


def _stacks(folder: Path, rank: int) -> Iterator[Path]:
    for place in _places(folder):
        yield place / "stacks" / f"rank_{rank}.txt"
        yield place / "stacks" / f"rank_{rank}.1.txt"


def _first(paths: Iterator[Path]) -> Path | None:
    return next((path for path in paths if path.is_file() and not path.is_symlink()), None)


def _logs(folder: Path, rank: int) -> Iterator[Path]:
    for place in _places(folder):
        manifest = read_manifest(place / "bundle.json", source="bundle.json")
        if isinstance(manifest, BundleManifest):
            yield from _logs_in(place, manifest, rank)


def _logs_in(place: Path, manifest: BundleManifest, rank: int) -> Iterator[Path]:
    """Of the last attempt only."""
    found = []
    for at, path in enumerate((place / "logs").glob("attempt_*/*/*.log")):
        if at >= MAX_LOG_FILES:
            break
        if not path.is_symlink() and rank_of_file(manifest, path.relative_to(place).as_posix()) == rank:
            found.append(path)
    last = max((path.parts[-3] for path in found), key=lambda name: (len(name), name), default="")
    yield from sorted(path for path in found if path.parts[-3] == last)


def _lines(path: Path, localizer: Localizer) -> list[str]:
    return [localizer.line(line, 2_000) for line in _tail_of(path, MAX_LOG).splitlines()[-MAX_LINES:]]


def _tail_of(path: Path | None, most: int, *, from_start: bool = False) -> str:
    if path is None:
        return ""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not from_start:
                file.seek(max(0, os.fstat(descriptor).st_size - most))
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
