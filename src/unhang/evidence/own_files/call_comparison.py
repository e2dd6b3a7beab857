"""Read ``machine/compared.json``: calls of different kinds at one position that a watcher saw a job survive.

A file like any other: every value is checked, and one that cannot be right makes the whole file unread.
"""

from __future__ import annotations

import msgspec

from unhang.evidence.items import Frame, Signature
from unhang.evidence.own_files.run_items import CallComparison, ComparedCall
from unhang.findings import Source, Unread
from unhang.wire.documents.document import DECODE_ERRORS

SCHEMA = "unhang.compared/1"
MAX_GROUPS, MAX_RANKS, MAX_FRAMES, MAX_DIMENSIONS, MAX_TEXT = 64, 65_536, 64, 4_096, 4_096
_Sizes = tuple[tuple[int, ...], ...]


class _Call(msgspec.Struct, frozen=True):
    rank: int
    operation: str
    input_sizes: _Sizes = ()
    output_sizes: _Sizes = ()
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()
    frames: tuple[tuple[str, int, str], ...] = ()


class _Group(msgspec.Struct, frozen=True):
    group: str
    position: int
    times: int
    calls: tuple[_Call, ...]
    aligned: bool = True


class _Compared(msgspec.Struct, frozen=True):
    schema: str
    groups: tuple[_Group, ...] = ()


def read_call_comparisons(raw: bytes, *, source: Source) -> tuple[CallComparison, ...] | Unread:
    """What the watcher wrote, or why it cannot be believed."""
    try:
        found = msgspec.json.decode(raw, type=_Compared)
    except DECODE_ERRORS as error:
        return Unread(source, f"is not a comparison of calls: {str(error)[:200]}")
    problem = _problem(found)
    if problem:
        return Unread(source, f"is a comparison of calls that cannot be right: {problem}")
    return tuple(
        CallComparison(source, g.group, g.position, g.times, tuple(map(_call, g.calls)), g.aligned)
        for g in found.groups
    )


def _call(call: _Call) -> ComparedCall:
    signature = Signature(
        call.operation, None, call.input_sizes, call.output_sizes, call.input_dtypes, call.output_dtypes
    )
    frames = tuple(Frame(name, file, line or None) for file, line, name in call.frames)
    return ComparedCall(call.rank, signature, frames)


def _problem(found: _Compared) -> str:
    """The first thing that cannot be right, or an empty text."""
    if found.schema != SCHEMA:
        return f"its schema is {found.schema[:60]!r}, not {SCHEMA!r}"
    if len(found.groups) > MAX_GROUPS:
        return "too many groups"
    return next((problem for group in found.groups if (problem := _group_problem(group))), "")


def _group_problem(group: _Group) -> str:
    ranks = [call.rank for call in group.calls]
    if not 2 <= len(ranks) <= MAX_RANKS or len(set(ranks)) != len(ranks) or min(ranks) < 0:
        return "its ranks"
    if group.position < 0 or group.times < 1:
        return "a position or a count that is none"
    if any(len(call.frames) > MAX_FRAMES or any(line < 0 for _, line, _ in call.frames) for call in group.calls):
        return "a stack without end"
    if any(_amount(call) > MAX_DIMENSIONS or _negative(call) for call in group.calls):
        return "sizes that are none"
    texts = [group.group, *(text for call in group.calls for text in _texts(call))]
    return "" if all(len(t) <= MAX_TEXT and t.isprintable() for t in texts) else "a name with control characters"


def _amount(call: _Call) -> int:
    return sum(len(sizes) + 1 for sizes in (*call.input_sizes, *call.output_sizes))


def _negative(call: _Call) -> bool:
    return any(size < 0 for sizes in (*call.input_sizes, *call.output_sizes) for size in sizes)


def _texts(call: _Call) -> tuple[str, ...]:
    placed = (text for file, _, name in call.frames for text in (file, name))
    return (call.operation, *call.input_dtypes, *call.output_dtypes, *placed)
