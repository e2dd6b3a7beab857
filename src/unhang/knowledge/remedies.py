"""Remedies by name: what to change stands in ``knowledge/remedies.toml``, which a reader can correct without code."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from unhang.findings import Remedy, RemedyKind
from unhang.knowledge.tables import read_typed
from unhang.knowledge.words import Phrase, Words, text_of


class RemedyRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change, what it costs, how to see that it worked."""

    kind: RemedyKind
    title: Phrase
    change: Phrase
    verify: Phrase
    cost: Phrase = Words("none", "无")
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
    return remedy_rows()[name].filled(values)
