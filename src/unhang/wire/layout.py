"""The bytes of a record's slot. Little endian throughout."""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from unhang.wire.rank_ranges import format_ranks, parse_ranks
from unhang.wire.record_views import (
    DUMP_RESULTS,
    PHASES,
    STEP_SOURCES,
    GroupProgress,
    GuardWait,
    MarkedPhase,
    RankIdentity,
    RecordView,
    TimeSpent,
)

MAX_GROUPS = MAX_STEPS = 32
MAX_SPENT = 8
STACK_BYTES = 8000
"""Room for the text of a stack: some eighty frames with the long paths of site-packages."""
_WORDS = {"phase": PHASES, "step_source": STEP_SOURCES, "dump_result": DUMP_RESULTS}
_FLAGS = ("in_init", "closed", "exiting", "recorder_on", "gave_up", "ended")
_Filled = TypeVar("_Filled")


def truncate_start(text: str, limit: int) -> bytes:
    """``text`` in at most ``limit`` bytes, keeping its end: of a path the end says most."""
    data = text.encode("utf-8", "backslashreplace")
    return data if len(data) <= limit else data[-limit:]


def decode_text(data: bytes) -> str:
    """The text of a field that is filled up with zero bytes."""
    return data.rstrip(b"\0").decode("utf-8", "replace")


class _Cursor:
    """Walks over the bytes of a slot."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, shape: struct.Struct) -> tuple[Any, ...]:
        values = shape.unpack_from(self.data, self.at)
        self.at += shape.size
        return values

    def take_bytes(self, length: int) -> bytes:
        data = self.data[self.at : self.at + length]
        self.at += length
        return data


class _Fields:
    """Some fields of an object in the order of their bytes, each with its shape: a text (``48s``), a number, or a word
    that stands for one (``_WORDS``)."""

    def __init__(self, **shapes: str) -> None:
        self._struct = struct.Struct("<" + "".join(shapes.values()))
        self._fields = [(n, _WORDS.get(n), int(s[:-1]) if s.endswith("s") else 0) for n, s in shapes.items()]

    def pack(self, told: Any) -> bytes:
        values = []
        for name, words, length in self._fields:
            value = getattr(told, name)
            if words is not None:
                value = words.index(value)
            values.append(truncate_start(value, length) if length else value)
        return self._struct.pack(*values)

    def unpack(self, into: _Filled, cursor: _Cursor) -> _Filled:
        for (name, words, length), value in zip(self._fields, cursor.take(self._struct), strict=True):
            word = words[min(value, len(words) - 1)] if words is not None else value
            setattr(into, name, decode_text(value) if length else word)
        return into


_COUNT, _HAS, _RANKS = struct.Struct("<I"), struct.Struct("<?"), struct.Struct("<96s")
_PARTNER_AND_STACK, _DURATIONS = struct.Struct("<iH"), struct.Struct(f"<I{MAX_STEPS}q")
_BEAT = _Fields(
    backend="32s",
    beat_ns="q",
    beat_wall_ns="q",
    beats="Q",
    beat_cost_ns="q",
    longest_beat_ns="q",
    longest_pause_ns="q",
    thread_id="Q",
    phase="B",
    threads="B",
    stack_hash="Q",
    since_ns="q",
    sampled_ns="q",
)
_PLACE = _Fields(line="I", file="256s", function="96s")
_STEPS = _Fields(step_source="B", steps="Q", collectives_per_step="q", last_step_ns="q", step_mean_ns="d")
_DUMP = _Fields(dump_served="Q", stacks_served="Q", dumped_ns="q", dump_result="B", dump_cost_ns="q")
_GROUP = _Fields(
    name="48s", backend="24s", size="i", enqueued="q", started="q", completed="q", changed_ns="q", sure="?"
)
_MARK = _Fields(label="48s", phase="B", since_ns="q", at_most_ns="q")
_WAIT, _WAIT_TIMES = _Fields(what="48s"), _Fields(since_ns="q", limit_ns="q")
_SPENT = _Fields(label="32s", ns="q", times="I")


def pack(view: RecordView) -> bytes:
    """The payload of a slot; what is too long for its field is cut."""
    stack = view.stack.encode("utf-8", "backslashreplace")[:STACK_BYTES]
    steps = view.step_durations_ns[-MAX_STEPS:]
    groups, spent = view.groups[:MAX_GROUPS], view.spent[:MAX_SPENT]
    mark, wait = view.mark or MarkedPhase(""), view.wait or GuardWait("")
    return b"".join(
        (
            _COUNT.pack(sum(getattr(view, name) << bit for bit, name in enumerate(_FLAGS))),
            _BEAT.pack(view),
            _PLACE.pack(view.user),
            _PLACE.pack(view.top),
            _PARTNER_AND_STACK.pack(view.partner, len(stack)),
            stack,
            _STEPS.pack(view),
            _DURATIONS.pack(len(steps), *steps, *(0,) * (MAX_STEPS - len(steps))),
            _DUMP.pack(view),
            _COUNT.pack(len(groups)),
            *map(_GROUP.pack, groups),
            _HAS.pack(view.mark is not None),
            _MARK.pack(mark),
            _HAS.pack(view.wait is not None),
            _WAIT.pack(wait),
            _RANKS.pack(format_ranks(wait.ranks, 96).encode()),
            _WAIT_TIMES.pack(wait),
            _COUNT.pack(len(spent)),
            *map(_SPENT.pack, spent),
        )
    )


def unpack(data: bytes, identity: RankIdentity) -> RecordView:
    """Raises struct.error or IndexError on bytes that are no payload."""
    view, cursor = RecordView(identity=identity), _Cursor(data)
    (flags,) = cursor.take(_COUNT)
    for bit, name in enumerate(_FLAGS):
        setattr(view, name, bool(flags >> bit & 1))
    _BEAT.unpack(view, cursor)
    _PLACE.unpack(view.user, cursor)
    _PLACE.unpack(view.top, cursor)
    view.partner, length = cursor.take(_PARTNER_AND_STACK)
    view.stack = decode_text(cursor.take_bytes(min(length, STACK_BYTES)))
    _STEPS.unpack(view, cursor)
    count, *durations = cursor.take(_DURATIONS)
    view.step_durations_ns = durations[: min(count, MAX_STEPS)]
    _DUMP.unpack(view, cursor)
    (count,) = cursor.take(_COUNT)
    view.groups = [_GROUP.unpack(GroupProgress(""), cursor) for _ in range(min(count, MAX_GROUPS))]
    (marked,) = cursor.take(_HAS)
    mark = _MARK.unpack(MarkedPhase(""), cursor)
    (waits,) = cursor.take(_HAS)
    wait = _WAIT.unpack(GuardWait(""), cursor)
    wait.ranks = parse_ranks(decode_text(*cursor.take(_RANKS)))
    _WAIT_TIMES.unpack(wait, cursor)
    view.mark, view.wait = mark if marked else None, wait if waits else None
    (count,) = cursor.take(_COUNT)
    view.spent = [_SPENT.unpack(TimeSpent(""), cursor) for _ in range(min(count, MAX_SPENT))]
    return view
