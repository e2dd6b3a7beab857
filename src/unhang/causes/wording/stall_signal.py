"""A signal about ranks that hold a stall up: what every such signal tells alike stands here once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unhang.causes.detector import Signal, make_signal
from unhang.causes.evidence_lines import group_label, operation_of, place_of, quote_stall, waiters_call
from unhang.facts.model import Facts, Stall
from unhang.findings import Cause, Grade
from unhang.sentences import Text, say


def stall_signal(
    cause: Cause, grade: Grade, summary: Text, facts: Facts, stall: Stall, *, ranks: Sequence[int] = (), **parts: Any
) -> Signal:
    """A signal that ``ranks``, else all laggards, hold ``stall`` up: where they stand, and in which call who waits.

    ``more_evidence`` follows the quotes of where they stand.
    """
    ranks = tuple(ranks) or stall.laggards
    told: dict[str, Any] = {
        "ranks": ranks,
        "group": group_label(facts, stall.group),
        "where": place_of(facts, ranks[0]),
        "waiter_where": stall.call.where if stall.call else None,
        "calls": waiters_call(stall.direct_waiters, stall.call),
        "evidence": (*quote_stall(facts, stall), *parts.pop("more_evidence", ())),
    }
    return make_signal(cause, grade, summary, **{**told, **parts})


def waiters_line(stall: Stall) -> tuple[Text, ...]:
    """Who waits in which operation, as a reason; empty where no call is known."""
    if stall.call is None:
        return ()
    return (
        say(
            "{waiters:who} {waiters:waits|wait} in {operation}",
            waiters=stall.direct_waiters,
            operation=operation_of(stall.call),
        ),
    )
