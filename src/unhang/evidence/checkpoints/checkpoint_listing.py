"""``machine/checkpoints.json``: which checkpoints a watcher found beside a job, and which of them were whole."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated

import msgspec

from unhang.evidence.checkpoints.checkpoint import FLAWS, LAYOUTS, Checkpoint
from unhang.findings import Source, Unread
from unhang.wire.documents.document import Document, read_document

MAX_CHECKPOINTS = 1_024


class _Listing(Document, frozen=True, kw_only=True, tag="unhang.checkpoints/1"):
    checkpoints: Annotated[tuple[Checkpoint, ...], msgspec.Meta(max_length=MAX_CHECKPOINTS)] = ()

    def problem(self) -> str:
        """The first thing that cannot be right, or an empty text."""
        return "" if all(map(_possible, self.checkpoints)) else "a checkpoint that is none"


def checkpoint_listing(found: Iterable[Checkpoint]) -> bytes:
    """What was found, as JSON."""
    return _Listing(checkpoints=tuple(found)).json()


def read_checkpoint_listing(raw: bytes, *, source: Source) -> tuple[Checkpoint, ...] | Unread:
    """The checkpoints in a listing, or why it cannot be believed."""
    found = read_document(_Listing, raw, "a listing of checkpoints", source)
    return found if isinstance(found, Unread) else found.checkpoints


def _possible(one: Checkpoint) -> bool:
    texts = (one.path, one.detail)
    known = one.layout in LAYOUTS and (not one.flaw or one.flaw in FLAWS)
    return known and math.isfinite(one.saved_s) and all(len(t) <= 4_096 and t.isprintable() for t in texts)
