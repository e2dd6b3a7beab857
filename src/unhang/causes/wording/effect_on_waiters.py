"""What a cause did to the ranks that waited for it."""

from __future__ import annotations

from collections.abc import Collection

from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts
from unhang.findings import Cause, Consequence
from unhang.sentences import say


def timeouts_after(facts: Facts, cause: Cause, ranks: Collection[int]) -> tuple[Consequence, ...]:
    """The timeouts of all other ranks as one consequence of ``cause`` on ``ranks``; empty when none is told."""
    logged = logged_waits(facts)
    others = tuple(sorted(logged.rank_set.difference(ranks))) if logged is not None else ()
    if not others:
        return ()
    return (Consequence(cause, others, len(others), say("{ranks:who} waited in vain and timed out", ranks=others)),)
