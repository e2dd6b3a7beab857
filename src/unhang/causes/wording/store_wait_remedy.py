"""The remedy where ranks wait in a collective for one that prepares something: wait on the store instead."""

from __future__ import annotations

from pathlib import PurePath

from unhang.findings import Remedy, Where
from unhang.knowledge.remedies import remedy


def store_wait_remedy(context_manager: str, waiter: Where | None) -> Remedy:
    """``context_manager``: the one that lets the main process go first; empty where it is a branch and a barrier.
    ``waiter``: the line of the program at which the others wait in it."""
    if not context_manager:
        return remedy("wait-on-store")
    if waiter is None:
        return remedy("wait-on-store-in-place", turnstile=context_manager)
    return remedy("wait-on-store-at", turnstile=context_manager, place=f"{PurePath(waiter.file).name}:{waiter.line}")
