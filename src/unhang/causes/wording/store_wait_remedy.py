"""The remedy where ranks wait in a collective for one that prepares something: wait on the store instead."""

from __future__ import annotations

from pathlib import PurePath

from unhang.findings import Remedy, RemedyKind, Where
from unhang.sentences import Text, say


def store_wait_remedy(context_manager: str, waiter: Where | None) -> Remedy:
    """``context_manager``: the one that lets the main process go first; empty where it is a branch and a barrier.
    ``waiter``: the line of the program at which the others wait in it."""
    place = f"{PurePath(waiter.file).name}:{waiter.line}" if waiter is not None else ""
    return Remedy(
        title=say("Let the others wait on the store, where no limit ends them"),
        kind=RemedyKind.CODE,
        change=_change(context_manager, place),
        cost=say("none"),
        verify=say("the others say what they wait for and for how long, and go on when it is done"),
    )


def _change(context_manager: str, place: str) -> Text:
    if context_manager and place:
        return say(
            "with unhang.rank_zero_first(): in place of {turnstile} at {place} "
            "(local=True where every node keeps files of its own)",
            turnstile=context_manager,
            place=place,
        )
    if context_manager:
        return say(
            "with unhang.rank_zero_first(): in place of {turnstile} "
            "(local=True where every node keeps files of its own)",
            turnstile=context_manager,
        )
    return say(
        "with unhang.rank_zero_first(): around the work, entered by every rank, in place of the branch and the barrier"
    )
