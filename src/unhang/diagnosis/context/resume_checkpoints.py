"""Which checkpoint to resume from: the newest whole one, and which newer ones to keep away from."""

from __future__ import annotations

from collections.abc import Sequence

from unhang.evidence.checkpoints import checkpoint as layouts
from unhang.evidence.checkpoints.checkpoint import Checkpoint
from unhang.findings import TornCheckpoint
from unhang.sentences import Text, say

TORN_SHOWN = 3
_BECAUSE = {
    layouts.CUT_OFF: say("{detail} is cut off"),
    layouts.MISSING: say("{detail} is not there"),
    layouts.RANKS: say("only {detail} ranks wrote their part"),
    layouts.UNFINISHED: say("it was not finished: {detail}, which is written last, is missing or older"),
    layouts.NO_MARK: say("{detail} has no end mark, so nobody can tell whether it is whole"),
    layouts.REFUSED: say("it cannot be read ({detail})"),
}


def last_complete(found: Sequence[Checkpoint]) -> Checkpoint | None:
    """The newest whole one of ``found`` (newest first)."""
    return next((one for one in found if one.whole), None)


def torn_since(found: Sequence[Checkpoint]) -> tuple[TornCheckpoint, ...]:
    """Those newer than the last whole one, which a restart must not take."""
    torn = []
    for one in found:
        if one.whole:
            break
        because = _BECAUSE[one.flaw]
        torn.append(TornCheckpoint(one.path, Text(because.template, {"detail": one.detail or one.layout})))
    return tuple(torn[:TORN_SHOWN])
