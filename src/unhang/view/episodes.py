"""The stalls of a run that were sampled: since when, and when the verdict was said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from unhang.view.regular_files import read_json_as
from unhang.wire.documents.bundle import BundleManifest
from unhang.wire.documents.kept_verdict import KeptVerdict

MAX_EPISODES = 200


class StallSpan(msgspec.Struct, frozen=True):
    """A stall that was sampled: seconds since the epoch. ``since_s``: when the last rank moved, where that is known;
    ``said_s``: when the first verdict on it was said; ``taken_s``: when the evidence that is there now was taken."""

    since_s: float | None
    said_s: float
    taken_s: float
    cause: str
    past: bool
    """It ended by itself, or something else did."""


def stall_spans(folder: Path) -> list[StallSpan]:
    """Every stall of the run that was sampled, oldest first."""
    found = list(_past(folder / ".unhang" / "past"))
    last = _episode(folder, past=False)
    return sorted((one for one in (*found, last) if one is not None), key=lambda one: one.taken_s)


def _past(folder: Path) -> Iterator[StallSpan | None]:
    try:
        places = sorted(path for path in folder.iterdir() if path.is_dir())[-MAX_EPISODES:]
    except OSError:
        return
    for place in places:
        yield _episode(place, past=True)


def _episode(folder: Path, *, past: bool) -> StallSpan | None:
    manifest = read_json_as(folder / "bundle.json", BundleManifest)
    if manifest is None or manifest.taken_s is None:
        return None
    verdict = read_json_as(folder / "verdict.json", KeptVerdict)
    cause = verdict.findings[0].cause if verdict is not None and verdict.findings else ""
    said_s = manifest.taken_s if past else _first_said(folder, manifest)
    return StallSpan(manifest.stalled_since_s, said_s, manifest.taken_s, cause[:80], past)


def _first_said(folder: Path, manifest: BundleManifest) -> float:
    """A verdict grows: later samples replace its evidence. What was said leaves a paper each time."""
    taken_s = manifest.taken_s or 0.0
    since_s = manifest.stalled_since_s if manifest.stalled_since_s is not None else taken_s
    with suppress(OSError):
        times = [path.stat().st_mtime for path in (folder / ".unhang").glob("summary-*.json")]
        return min((time_s for time_s in times if since_s <= time_s <= taken_s), default=taken_s)
    return taken_s
