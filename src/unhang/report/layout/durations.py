"""How long something took or will take, as people say it: the same on the terminal, in a report and on the page."""

from __future__ import annotations

from unhang.sentences import Text, say

SECONDS_BELOW_S = 120
MINUTES_BELOW_S = 7_200


def duration(seconds: float) -> Text:
    """``55 s``, ``12 min`` or ``3:07 h``: to the nearest second, then whole minutes. ``paint.js`` does the same."""
    whole = int(max(0.0, seconds) + 0.5)
    if whole < SECONDS_BELOW_S:
        return say("{count} s", count=whole)
    if whole < MINUTES_BELOW_S:
        return say("{count} min", count=whole // 60)
    return say("{time} h", time=f"{whole // 3600}:{whole % 3600 // 60:02}")
