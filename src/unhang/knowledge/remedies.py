"""Remedies by name: what to change stands in ``knowledge/remedies.toml``, which a reader can correct without code."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import Any

import msgspec

from unhang.findings import Remedy, RemedyKind, Where
from unhang.knowledge.tables import read_typed
from unhang.knowledge.words import Phrase, text_of


class RemedyRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change, what it costs, how to see that it worked; the last two only where there is something to say."""

    kind: RemedyKind
    title: Phrase
    change: Phrase
    verify: Phrase = ""
    cost: Phrase = ""
    set: Mapping[str, str] = {}
    unset: tuple[str, ...] = ()

    def filled(self, values: Mapping[str, Any], **parts: Any) -> Remedy:
        """The remedy with its places filled; parts of a :class:`Remedy` that are given count instead of the row's."""
        texts = {part: text_of(getattr(self, part), values) for part in ("title", "change", "cost", "verify")}
        unset = tuple(name.format(**values) for name in self.unset)
        return Remedy(**{**texts, "kind": self.kind, "set": self.set, "unset": unset, **parts})


@cache
def remedy_rows() -> Mapping[str, RemedyRow]:
    """All remedies, by name."""
    return read_typed("remedies.toml", dict[str, RemedyRow])


def remedy(name: str, /, **values: Any) -> Remedy:
    """The remedy ``name`` with its places filled. Raises ``KeyError`` for one that is not in the table."""
    return remedy_rows()[name].filled(values, row=name)


def store_wait_remedy(context_manager: str, waiter: Where | None) -> Remedy:
    """``context_manager``: the one that lets the main process go first; empty where it is a branch and a barrier.
    ``waiter``: the line of the program at which the others wait in it."""
    if not context_manager:
        return remedy("wait-on-store")
    if waiter is None:
        return remedy("wait-on-store-in-place", turnstile=context_manager)
    return remedy("wait-on-store-at", turnstile=context_manager, place=f"{PurePath(waiter.file).name}:{waiter.line}")
