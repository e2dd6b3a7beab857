"""What a rank says of itself in its record, for the manifest."""

from __future__ import annotations

import time
from typing import Any

from unhang.wire.record_views import RecordView


def annotation_entries(view: RecordView, ended_ns: int | None) -> dict[str, Any]:
    """The marked phase the rank is in, the guard or the partner it waits for and the groups it is a member of, as keys
    of ``bundle.json``; nothing where it says none of them. ``ended_ns``: when it ended, monotonic."""
    now_ns = ended_ns if ended_ns is not None else time.monotonic_ns()
    said: dict[str, Any] = {}
    mark, wait = view.mark, view.wait
    if mark is not None:
        said["marked"] = {"label": _plain(mark.label), "phase": mark.phase, "gone_s": _seconds(now_ns - mark.since_ns)}
        if mark.at_most_ns >= 0:
            said["marked"]["at_most_s"] = _seconds(mark.at_most_ns)
    if wait is not None:
        ranks = [rank for rank in wait.ranks if rank < view.identity.world_size]
        said["guard_wait"] = {"what": _plain(wait.what), "ranks": ranks, "waited_s": _seconds(now_ns - wait.since_ns)}
        if wait.limit_ns >= 0:
            said["guard_wait"]["limit_s"] = _seconds(wait.limit_ns)
    world = view.identity.world_size
    if 0 <= view.partner < world:
        said["partner"] = view.partner
    if groups := {_plain(group.name): group.size for group in view.groups if 0 < group.size <= world}:
        said["groups"] = groups
    return said


def _seconds(duration_ns: int) -> float:
    return round(max(0, duration_ns) / 1e9, 3)


def _plain(text: str) -> str:
    """A label is the user's own text: nothing in it may make the manifest unreadable."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
