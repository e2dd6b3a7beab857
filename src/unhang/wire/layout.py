"""The bytes of a record's slot. Little endian throughout."""

from __future__ import annotations

import struct
from typing import Any

from unhang.wire.rank_ranges import format_ranks, parse_ranks
from unhang.wire.record_views import (
    DUMP_RESULTS,
    PHASES,
    STEP_SOURCES,
    CodeLine,
    GroupProgress,
    GuardWait,
    MarkedPhase,
    RankIdentity,
    RecordView,
    TimeSpent,
)

MAX_GROUPS = 32
MAX_STEPS = 32
MAX_SPENT = 8
_BEAT = struct.Struct("<I32sqqQqqq")
_THREAD = struct.Struct("<QBBQqqI256s96sI256s96siH")
STACK_BYTES = 8000
"""Room for the text of a stack: some eighty frames with the long paths of site-packages."""
_STEPS = struct.Struct(f"<BQqqdI{MAX_STEPS}q")
_DUMP = struct.Struct("<QQqBq")
_GROUP = struct.Struct("<48s24siqqqqB")
_MARK = struct.Struct("<B48sBqq")
_WAIT = struct.Struct("<B48s96sqq")
_SPENT = struct.Struct("<32sqI")
_COUNT = struct.Struct("<I")
_FLAGS = ("in_init", "closed", "exiting", "recorder_on", "gave_up", "ended")


def truncate_start(text: str, limit: int) -> bytes:
    """``text`` in at most ``limit`` bytes, keeping its end: of a path the end says most."""
    data = text.encode("utf-8", "backslashreplace")
    return data if len(data) <= limit else data[-limit:]


def decode_text(data: bytes) -> str:
    """The text of a field that is filled up with zero bytes."""
    return data.rstrip(b"\0").decode("utf-8", "replace")


def _word(words: tuple[str, ...], at: int) -> str:
    return words[at] if at < len(words) else words[0]


def pack(view: RecordView) -> bytes:
    """The payload of a slot; what is too long for its field is cut."""
    flags = sum(getattr(view, name) << bit for bit, name in enumerate(_FLAGS))
    stack = view.stack.encode("utf-8", "backslashreplace")[:STACK_BYTES]
    steps = view.step_durations_ns[-MAX_STEPS:]
    groups = view.groups[:MAX_GROUPS]
    parts = [
        _BEAT.pack(
            flags,
            truncate_start(view.backend, 32),
            view.beat_ns,
            view.beat_wall_ns,
            view.beats,
            view.beat_cost_ns,
            view.longest_beat_ns,
            view.longest_pause_ns,
        ),
        _THREAD.pack(
            view.thread_id,
            PHASES.index(view.phase),
            min(view.threads, 255),
            view.stack_hash,
            view.since_ns,
            view.sampled_ns,
            view.user.line,
            truncate_start(view.user.file, 256),
            truncate_start(view.user.function, 96),
            view.top.line,
            truncate_start(view.top.file, 256),
            truncate_start(view.top.function, 96),
            view.partner,
            len(stack),
        ),
        stack,
        _STEPS.pack(
            STEP_SOURCES.index(view.step_source),
            view.steps,
            view.collectives_per_step,
            view.last_step_ns,
            view.step_mean_ns,
            len(steps),
            *steps,
            *(0,) * (MAX_STEPS - len(steps)),
        ),
        _DUMP.pack(
            view.dump_served,
            view.stacks_served,
            view.dumped_ns,
            DUMP_RESULTS.index(view.dump_result),
            view.dump_cost_ns,
        ),
        _COUNT.pack(len(groups)),
    ]
    parts += [
        _GROUP.pack(
            truncate_start(group.name, 48),
            truncate_start(group.backend, 24),
            group.size,
            group.enqueued,
            group.started,
            group.completed,
            group.changed_ns,
            group.sure,
        )
        for group in groups
    ]
    return b"".join([*parts, *_pack_annotations(view)])


def _pack_annotations(view: RecordView) -> list[bytes]:
    """What the program says of itself."""
    mark, wait, spent = view.mark, view.wait, view.spent[:MAX_SPENT]
    shown = mark or MarkedPhase("")
    told = wait or GuardWait("")
    return [
        _MARK.pack(
            mark is not None,
            truncate_start(shown.label, 48),
            PHASES.index(shown.phase),
            shown.since_ns,
            shown.at_most_ns,
        ),
        _WAIT.pack(
            wait is not None,
            truncate_start(told.what, 48),
            format_ranks(told.ranks, 96).encode(),
            told.since_ns,
            told.limit_ns,
        ),
        _COUNT.pack(len(spent)),
        *(_SPENT.pack(truncate_start(one.label, 32), one.ns, one.times) for one in spent),
    ]


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


def unpack(data: bytes, identity: RankIdentity) -> RecordView:
    """Raises struct.error or IndexError on bytes that are no payload."""
    view, cursor = RecordView(identity=identity), _Cursor(data)
    flags, backend, *beat = cursor.take(_BEAT)
    for bit, name in enumerate(_FLAGS):
        setattr(view, name, bool(flags >> bit & 1))
    view.backend = decode_text(backend)
    view.beat_ns, view.beat_wall_ns, view.beats, view.beat_cost_ns, view.longest_beat_ns, view.longest_pause_ns = beat
    view.thread_id, phase, view.threads, view.stack_hash, view.since_ns, view.sampled_ns, *places = cursor.take(_THREAD)
    view.phase = _word(PHASES, phase) if phase < len(PHASES) else "other"
    view.user = CodeLine(decode_text(places[1]), places[0], decode_text(places[2]))
    view.top = CodeLine(decode_text(places[4]), places[3], decode_text(places[5]))
    view.partner = places[6]
    view.stack = decode_text(cursor.take_bytes(min(places[7], STACK_BYTES)))
    source, view.steps, view.collectives_per_step, view.last_step_ns, view.step_mean_ns, count, *durations = (
        cursor.take(_STEPS)
    )
    view.step_source = _word(STEP_SOURCES, source)
    view.step_durations_ns = durations[: min(count, MAX_STEPS)]
    view.dump_served, view.stacks_served, view.dumped_ns, result, view.dump_cost_ns = cursor.take(_DUMP)
    view.dump_result = _word(DUMP_RESULTS, result)
    (groups,) = cursor.take(_COUNT)
    for _ in range(min(groups, MAX_GROUPS)):
        name, kind, size, enqueued, started, completed, changed_ns, sure = cursor.take(_GROUP)
        view.groups.append(
            GroupProgress(
                decode_text(name), size, enqueued, started, completed, changed_ns, bool(sure), decode_text(kind)
            )
        )
    _unpack_annotations(view, cursor)
    return view


def _unpack_annotations(view: RecordView, cursor: _Cursor) -> None:
    marked, label, phase, since_ns, at_most_ns = cursor.take(_MARK)
    if marked:
        view.mark = MarkedPhase(decode_text(label), PHASES[min(phase, len(PHASES) - 1)], since_ns, at_most_ns)
    waits, what, ranks, since_ns, limit_ns = cursor.take(_WAIT)
    if waits:
        view.wait = GuardWait(decode_text(what), parse_ranks(decode_text(ranks)), since_ns, limit_ns)
    (count,) = cursor.take(_COUNT)
    for _ in range(min(count, MAX_SPENT)):
        label, spent_ns, times = cursor.take(_SPENT)
        view.spent.append(TimeSpent(decode_text(label), spent_ns, times))
