"""``machine/checkpoints.json``: which checkpoints a watcher found beside a job, and which of them were whole."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from unhang.evidence.checkpoints.checkpoint import FLAWS, LAYOUTS, Checkpoint
from unhang.findings import Source, Unread
from unhang.wire.documents.document import DECODE_ERRORS

SCHEMA = "unhang.checkpoints/1"
MAX_CHECKPOINTS = 1_024


class _Listing(msgspec.Struct, frozen=True):
    schema: str
    checkpoints: tuple[Checkpoint, ...] = ()


def checkpoint_listing(found: Iterable[Checkpoint]) -> bytes:
    """What was found, as JSON."""
    return msgspec.json.encode(_Listing(SCHEMA, tuple(found))) + b"\n"


def read_checkpoint_listing(raw: bytes, *, source: Source) -> tuple[Checkpoint, ...] | Unread:
    """The checkpoints in a listing, or why it cannot be believed."""
    try:
        listing = msgspec.json.decode(raw, type=_Listing)
    except DECODE_ERRORS as error:
        return Unread(source, f"is no listing of checkpoints: {str(error)[:200]}")
    if (
        listing.schema != SCHEMA
        or len(listing.checkpoints) > MAX_CHECKPOINTS
        or not all(map(_possible, listing.checkpoints))
    ):
        return Unread(source, "is a listing of checkpoints that cannot be right")
    return listing.checkpoints


def _possible(one: Checkpoint) -> bool:
    texts = (one.path, one.detail)
    known = one.layout in LAYOUTS and (not one.flaw or one.flaw in FLAWS)
    return known and math.isfinite(one.saved_s) and all(len(t) <= 4_096 and t.isprintable() for t in texts)
