"""``machine/history.json``: hosts and cards that verdicts of earlier runs named, kept beside a new run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from unhang.findings import Cause, Source, Unread
from unhang.wire.documents.document import Document, Name, read_document

MAX_SUSPECTS = 10_000


class EarlierSuspect(msgspec.Struct, frozen=True):
    """A host or card (``kind``) that verdicts of ``runs`` earlier runs named; ``cause``: the last one's.

    A card is called ``GPU-<uuid>`` or ``<host> <PCI address>``. ``last_s``: end of the last such run, since the epoch.
    """

    kind: Literal["host", "card"]
    name: Annotated[Name, msgspec.Meta(min_length=1)]
    cause: str
    runs: Annotated[int, msgspec.Meta(ge=1)]
    last_s: Annotated[float, msgspec.Meta(ge=-1e11, le=1e11)]


_PCI = re.compile(r"\b(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?\b")
_UUID = re.compile(r"\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def gpus_named(text: str, hosts: Iterable[str]) -> set[str]:
    """The cards a text names, as :class:`EarlierSuspect` calls them; PCI addresses only where there is one host."""
    only = list(hosts)
    found = set(_UUID.findall(text))
    if len(only) == 1 and only[0]:
        found |= {f"{only[0]} {address.lower()[-10:]}" for address in _PCI.findall(text)}
    return found


class _Listing(Document, frozen=True, kw_only=True, tag="unhang.history/1"):
    guilty: Annotated[tuple[EarlierSuspect, ...], msgspec.Meta(max_length=MAX_SUSPECTS)] = ()

    def problem(self) -> str:
        """The first thing that cannot be right, or an empty text."""
        known = {cause.value for cause in Cause}
        return "" if all(one.cause in known for one in self.guilty) else "a cause that is none"


def suspect_listing(guilty: Iterable[EarlierSuspect]) -> bytes:
    """``machine/history.json``."""
    return _Listing(guilty=tuple(guilty)).json()


def read_suspect_listing(raw: bytes, *, source: Source) -> tuple[EarlierSuspect, ...] | Unread:
    """What a listing holds, or why it cannot be believed."""
    found = read_document(_Listing, raw, "a listing of earlier runs", source)
    return found if isinstance(found, Unread) else found.guilty
