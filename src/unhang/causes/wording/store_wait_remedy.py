"""The remedy where ranks wait in a collective for one that prepares something: wait on the store instead."""

from __future__ import annotations

from pathlib import PurePath

from unhang.findings import Remedy, RemedyKind, Where
from unhang.sentences import Text, say


def store_wait_remedy(turnstile: str, waiter: Where | None) -> Remedy:
    """``turnstile``: the context manager that lets the main process go first; empty where it is a branch and a barrier.
    ``waiter``: the line of the program at which the others wait in it."""
    place = f"{PurePath(waiter.file).name}:{waiter.line}" if waiter is not None else ""
    return Remedy(
        title=say("Let the others wait on the store, where no limit ends them"),
        kind=RemedyKind.CODE,
        change=_change(turnstile, place),
        cost=say("none"),
        verify=say("the others say what they wait for and for how long, and go on when it is done"),
    )


def _change(turnstile: str, place: str) -> Text:
    if turnstile and place:
        return say(
            "with unhang.rank_zero_first(): in place of {turnstile} at {place} "
            "(local=True where every node keeps files of its own)",
            turnstile=turnstile,
            place=place,
        )
    if turnstile:
        return say(
            "with unhang.rank_zero_first(): in place of {turnstile} "
            "(local=True where every node keeps files of its own)",
            turnstile=turnstile,
        )
    return say(
        "with unhang.rank_zero_first(): around the work, entered by every rank, in place of the branch and the barrier"
    )
