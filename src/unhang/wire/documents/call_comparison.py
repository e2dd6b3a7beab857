"""``machine/compared.json``: calls of different kinds at one position that a watcher saw a job survive."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from unhang.findings import Source, Unread
from unhang.wire.documents.document import Count, Document, Line, Name, Part, Rank, read_document

MAX_GROUPS, MAX_RANKS, MAX_FRAMES, MAX_DIMENSIONS = 64, 65_536, 64, 4_096
Sizes = tuple[tuple[Count, ...], ...]
Names = tuple[Name, ...]


class ComparedCall(msgspec.Struct, frozen=True):
    """What one rank called; ``frames`` innermost first, empty where they were not recorded."""

    rank: Rank
    operation: Name
    input_sizes: Sizes = ()
    output_sizes: Sizes = ()
    input_dtypes: Names = ()
    output_dtypes: Names = ()
    frames: Annotated[tuple[Line, ...], msgspec.Meta(max_length=MAX_FRAMES)] = ()


class CallComparison(Part, frozen=True, kw_only=True):
    """Calls that differ at one position of a group, and that the job survived; ``times``: at so many positions."""

    group: Name
    position: Count
    times: Annotated[int, msgspec.Meta(ge=1)]
    calls: Annotated[tuple[ComparedCall, ...], msgspec.Meta(min_length=2, max_length=MAX_RANKS)]
    aligned: bool = True
    """The ranks' records overlap before it."""


class CallComparisons(Document, frozen=True, kw_only=True, tag="unhang.compared/1"):
    """The whole file."""

    groups: Annotated[tuple[CallComparison, ...], msgspec.Meta(max_length=MAX_GROUPS)] = ()

    def problem(self) -> str:
        """The first thing that cannot be right, or an empty text."""
        if any(len({call.rank for call in group.calls}) != len(group.calls) for group in self.groups):
            return "its ranks"
        sizes = [(*call.input_sizes, *call.output_sizes) for group in self.groups for call in group.calls]
        if any(sum(len(one) + 1 for one in of_call) > MAX_DIMENSIONS for of_call in sizes):
            return "sizes without end"
        return ""


def read_call_comparisons(raw: bytes, *, source: Source) -> tuple[CallComparison, ...] | Unread:
    """What the watcher wrote, or why it cannot be believed."""
    found = read_document(CallComparisons, raw, "a comparison of calls", source)
    return found if isinstance(found, Unread) else tuple(replace(group, source=source) for group in found.groups)
