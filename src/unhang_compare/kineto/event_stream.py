"""Cut a stream of trace events where an event ends, and decode piece by piece.

A cut between two objects is tried from the end of what was read: only where all brackets and quotes before it are
closed does the piece decode, so a wrong cut (inside a list of an event's arguments, inside a text) is seen at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import msgspec

from unhang.evidence.bounded_streams import STREAM_ERRORS
from unhang.evidence.profiler_trace import HEAD_BYTES, events_offset
from unhang.wire.documents.document import DECODE_ERRORS

PIECE_BYTES = 4 << 20
MAX_CUTS = 16
MAX_BYTES_WITHOUT_EVENT = 64 << 20
"""A packed file of zeros unpacks to any size."""
_CUT = re.compile(rb"\}\s*,\s*(?=\{)")
_NEXT_EVENT = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts)"\s*:')


class EventArguments(msgspec.Struct):
    """What is used of an event's ``args``."""

    external: int | str | None = msgspec.field(name="External id", default=None)
    stack: str | None = msgspec.field(name="Call stack", default=None)
    name: str | None = None


class TraceEvent(msgspec.Struct):
    """What is used of an event. Times are microseconds."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    pid: int | str = 0
    tid: int | str = 0
    args: EventArguments | None = None


@dataclass(slots=True)
class StreamState:
    """What a stream turned out to hold beside its events. ``trouble`` is empty when it was read to its end."""

    head: bytes = b""
    tail: bytes = b""
    size: int = 0
    trouble: str = ""
    damaged: int = 0
    """Events that could not be decoded."""


_DECODER = msgspec.json.Decoder(list[TraceEvent])
_EACH = msgspec.json.Decoder(list[msgspec.Raw])
_ONE = msgspec.json.Decoder(TraceEvent)


def read_events(stream: BinaryIO, reading: StreamState) -> Iterator[list[TraceEvent]]:
    """The events, some thousands at a time. What is wrong with the stream is noted in ``reading``."""
    rest = _skip_to_events(stream, reading)
    if rest is None:
        return
    barren = 0
    while chunk := _read(stream, PIECE_BYTES, reading):
        events, rest = _decoded(rest + chunk, reading)
        barren = 0 if events else barren + len(chunk)
        if barren > MAX_BYTES_WITHOUT_EVENT:
            reading.trouble = f"holds no event for {MAX_BYTES_WITHOUT_EVENT >> 20} MiB; what came before that was read"
            return
        yield events
    yield from _last(rest or b" ", reading)


def _skip_to_events(stream: BinaryIO, reading: StreamState) -> bytes | None:
    """What was read behind the bracket that begins the events; None where there is none."""
    head = b""
    while len(head) < 16 * HEAD_BYTES:
        chunk = _read(stream, HEAD_BYTES, reading)
        head += chunk
        begin = events_offset(head)
        if begin is not None:
            reading.head = head[:begin]
            return head[begin:]
        if not chunk:
            break
    reading.trouble = reading.trouble or "is no trace: it holds no list of events"
    return None


def _read(stream: BinaryIO, size: int, reading: StreamState) -> bytes:
    if reading.trouble:
        return b""
    try:
        chunk = stream.read(size)
    except STREAM_ERRORS as error:
        reading.trouble = f"is cut short or damaged ({error or type(error).__name__})"
        return b""
    reading.size += len(chunk)
    return chunk


def _decoded(buffer: bytes, reading: StreamState) -> tuple[list[TraceEvent], bytes]:
    """The events up to the last cut that holds, and what follows it."""
    for end, begin in _cuts(buffer):
        events = _try(buffer[:end], reading)
        if events is not None:
            return events, buffer[begin:]
    if len(buffer) > 2 * PIECE_BYTES:
        return _past_damage(buffer, reading)
    return [], buffer


def _cuts(buffer: bytes) -> Iterator[tuple[int, int]]:
    """Places where one event may end and another begin, last first."""
    stop, tried = len(buffer), 0
    while stop > 0 and tried < MAX_CUTS:
        start = max(0, stop - (1 << 14))
        for cut in reversed(list(_CUT.finditer(buffer, start, min(len(buffer), stop + 64)))):
            if cut.start() < stop:
                yield cut.start() + 1, cut.end()
                tried += 1
        stop = start


def _try(piece: bytes, reading: StreamState) -> list[TraceEvent] | None:
    try:
        return _DECODER.decode(b"[" + piece + b"]")
    except msgspec.ValidationError:
        return _one_by_one(piece, reading)
    except DECODE_ERRORS:
        return None


def _one_by_one(piece: bytes, reading: StreamState) -> list[TraceEvent] | None:
    """Some event is not as it should be: the others are kept."""
    try:
        raws = _EACH.decode(b"[" + piece + b"]")
    except DECODE_ERRORS:
        return None
    events = []
    for raw in raws:
        try:
            events.append(_ONE.decode(raw))
        except DECODE_ERRORS:  # noqa: PERF203 - one bad event must not cost the others
            reading.damaged += 1
    return events


def _past_damage(buffer: bytes, reading: StreamState) -> tuple[list[TraceEvent], bytes]:
    """No cut holds: keep what is whole before the damage, and go on with the event behind it."""
    events, at = _whole_events(buffer)
    reading.damaged += 1
    behind = _NEXT_EVENT.search(buffer, at + 1)
    return events, buffer[behind.start() :] if behind is not None else b""


def _whole_events(buffer: bytes) -> tuple[list[TraceEvent], int]:
    """Events from the front, each by itself, up to the first that does not decode, and where that one begins."""
    events: list[TraceEvent] = []
    begin = end = 0
    for cut in _CUT.finditer(buffer):
        end = cut.start() + 1
        try:
            events.append(_ONE.decode(buffer[begin:end]))
        except DECODE_ERRORS:
            if end - begin > HEAD_BYTES:
                break
            continue  # the cut was inside an event
        begin = cut.end()
    return events, begin


def _last(rest: bytes, reading: StreamState) -> Iterator[list[TraceEvent]]:
    """The end of the list, and what the file says behind it."""
    while rest:
        for end in _ends(rest):
            events = _try(rest[:end], reading) if rest[:end].strip() else []
            if events is not None:
                reading.tail = rest[end + 1 :]
                yield events
                return
        events, rest = _past_damage(rest, reading)
        yield events
    reading.damaged -= 1  # the end itself
    reading.trouble = reading.trouble or "is cut short: its list of events does not end; what is whole was read"


def _ends(rest: bytes) -> Iterator[int]:
    """Brackets that may end the list, last first."""
    end = len(rest)
    for _ in range(MAX_CUTS):
        end = rest.rfind(b"]", 0, end)
        if end < 0:
            return
        yield end
