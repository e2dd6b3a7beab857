"""``machine/history.json``: hosts and cards that verdicts of earlier runs named, kept beside a new run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from unhang.findings import Cause, Source, Unread
from unhang.wire.documents.document import DECODE_ERRORS

SCHEMA = "unhang.history/1"
MAX_SUSPECTS = 10_000
KINDS = ("host", "card")


@dataclass(frozen=True, slots=True)
class EarlierSuspect:
    """A host or card (``kind``) that verdicts of ``runs`` earlier runs named; ``cause``: the last one's.

    A card is called ``GPU-<uuid>`` or ``<host> <PCI address>``. ``last_s``: end of the last such run, since the epoch.
    """

    kind: str
    name: str
    cause: str
    runs: int
    last_s: float


_PCI = re.compile(r"\b(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?\b")
_UUID = re.compile(r"\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def gpus_named(text: str, hosts: Iterable[str]) -> set[str]:
    """The cards a text names, as :class:`EarlierSuspect` calls them; PCI addresses only where there is one host."""
    only = list(hosts)
    found = set(_UUID.findall(text))
    if len(only) == 1 and only[0]:
        found |= {f"{only[0]} {address.lower()[-10:]}" for address in _PCI.findall(text)}
    return found


class _Listing(msgspec.Struct, frozen=True):
    schema: str
    guilty: tuple[EarlierSuspect, ...] = ()


def suspect_listing(guilty: Iterable[EarlierSuspect]) -> bytes:
    """``machine/history.json``: the listing as a line of JSON."""
    return msgspec.json.encode(_Listing(SCHEMA, tuple(guilty))) + b"\n"


def read_suspect_listing(raw: bytes, *, source: Source) -> tuple[EarlierSuspect, ...] | Unread:
    """What a listing holds, or why it cannot be believed."""
    try:
        listing = msgspec.json.decode(raw, type=_Listing)
    except DECODE_ERRORS as error:
        return Unread(source, f"is no listing of earlier runs: {str(error)[:200]}")
    if listing.schema != SCHEMA or len(listing.guilty) > MAX_SUSPECTS or not all(map(_possible, listing.guilty)):
        return Unread(source, "is a listing of earlier runs that cannot be right")
    return listing.guilty


def _possible(one: EarlierSuspect) -> bool:
    named = one.kind in KINDS and 0 < len(one.name) <= 512 and one.name.isprintable()
    return named and one.cause in {cause.value for cause in Cause} and one.runs > 0 and math.isfinite(one.last_s)
