"""What a process was doing: the thread that issues collectives, its meaning, and the other threads worth a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from unhang.evidence.items import Frame, SourceFile, StackDump, ThreadStack
from unhang.facts.model import Activity
from unhang.facts.stacks.calls_on_line import awaited_operation, calls_into_library, calls_on_line, line_into_library
from unhang.facts.stacks.source_context import stack_context
from unhang.facts.stacks.user_frames import first_user_frame, is_user_frame
from unhang.findings import Evidence, Phase, Source, Where
from unhang.knowledge.activities import ActivityRow, ActivityTable, activity_table, bare_function, row_of_frame
from unhang.program.syntax.syntax_tree import find_source

_Sources = Mapping[str, SourceFile]

BUSY_ELSEWHERE = {"join", "child-process", "queue-wait", "lock-wait", "interpreter-exit", "actor-idle"}
"""What a main thread does while another thread trains; Ray Train runs the program in a thread of an actor."""
_BACKGROUND = {"pin-memory", "launcher", "queue-wait", "lock-wait", "socket", "gil-wait", "unknown", "process-pool"}
"""Not worth a word in a thread without a frame of the user's."""
_NATIVE_PLUMBING = {"sleep", "socket", "lock-wait", "file-io"}
_BACKGROUND_NAMES = (
    "QueueFeederThread",
    "TMonitor",
    "tqdm",
    "pt_gloo_runloop",
    "gloo_tcp_loop",
    "Tensorboard",
    "MsgRouter",
)
_EVIDENCE_FRAMES = 4


@dataclass(frozen=True, slots=True)
class _Reading:
    thread: ThreadStack
    what: str
    phase: Phase
    operation: str | None
    where: Where | None
    is_main: bool


def activity_of(stack: StackDump, sources: _Sources) -> tuple[Activity | None, tuple[Activity, ...]]:
    """(what the thread that issues collectives was doing, other threads worth a word).

    That thread is one inside a collective call; else the main thread; else, while the main thread only joins, sleeps
    or polls, the thread that trains. None without a thread that has frames.
    """
    readings = [_read_thread(stack, thread, sources) for thread in stack.threads if thread.frames]
    if not readings:
        return None, ()
    chosen = max(readings, key=lambda reading: (_rank_of(reading), reading.is_main))
    main = next((reading for reading in readings if reading.is_main), None)
    others = [reading for reading in readings if reading is not chosen and _is_notable(reading)]
    return _activity(stack, chosen, sources, main), tuple(_activity(stack, reading, sources) for reading in others)


def frames_since_fork(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """Frames since the fork: without those inherited from the parent process."""
    for index, frame in enumerate(frames):
        born = bare_function(frame.function) == "_bootstrap"
        if born and frame.file.replace("\\", "/").endswith(("multiprocessing/process.py", "multiprocess/process.py")):
            return tuple(frames[: index + 1])
    return tuple(frames)


# ---------------------------------------------------------------------------------------------------
# one thread


def _read_thread(stack: StackDump, thread: ThreadStack, sources: _Sources) -> _Reading:
    table = activity_table()
    thread = replace(thread, frames=frames_since_fork(thread.frames))
    row, operation = _best_row(thread.frames, sources)
    where = first_user_frame(thread.frames, sources)
    what, phase = (row.what, row.phase) if row is not None else ("unknown", Phase.OTHER)
    if what == "queue-wait" and _feeds_an_iterator(thread.frames):
        what, phase = "dataloader-wait", Phase.DATA
    elif row is None or row.priority < _PLAIN_WAITS:
        told = _activity_on_line(thread, table, sources)
        if told is not None:
            what, phase, operation = told
        elif row is None and where is not None:
            what, phase = "user-code", Phase.OTHER
    if operation == "wait" and where is not None and where.line is not None:
        source = find_source(sources, where.file)
        operation = (awaited_operation(source, where.line) if source is not None else None) or operation
    if what == "unknown" and thread.frames[0].native:
        what = "native"
    return _Reading(thread, what, phase, operation, where, is_main_thread(stack, thread))


def _feeds_an_iterator(frames: Sequence[Frame]) -> bool:
    """It waits at a queue inside of an iterator's own ``__next__``: a thread or process behind it makes the batches."""
    python = [bare_function(frame.function) for frame in frames if not frame.native]
    return any(inner == "get" and outer == "__next__" for inner, outer in pairwise(python))


_PLAIN_WAITS = 40
"""Rows below are waits that say little of themselves (lock, sleep, file); the user's line may say more."""


def _best_row(frames: Sequence[Frame], sources: _Sources) -> tuple[ActivityRow | None, str | None]:
    best: ActivityRow | None = None
    matched = ""
    operation: str | None = None
    inside_own = False
    for frame in frames:
        row = _row_of(frame, sources)
        inside_own = inside_own or is_user_frame(frame, sources)
        if row is None or (row.innermost and inside_own):
            continue
        if best is None or row.priority > best.priority:
            best, matched = row, bare_function(frame.function)
        if operation is None and row.operation is not None:
            operation = bare_function(frame.function) if row.operation == "*" else row.operation
    if best is None:
        return None, None
    if best.operation is not None:
        return best, matched if best.operation == "*" else _named(best.operation, frames)
    return best, operation if best.phase is Phase.COMMUNICATION else None


def _named(operation: str, frames: Sequence[Frame]) -> str:
    """A native ``wait`` takes the name of the collective further out when a frame tells it."""
    if operation != "wait":
        return operation
    for frame in frames:
        row = row_of_frame(frame.function, frame.file, native=frame.native)
        if row is not None and row.operation not in (None, "wait"):
            return bare_function(frame.function) if row.operation == "*" else str(row.operation)
    return operation


def _row_of(frame: Frame, sources: _Sources) -> ActivityRow | None:
    if not frame.native and is_user_frame(frame, sources):
        return None
    return row_of_frame(frame.function, frame.file, native=frame.native)


def _activity_on_line(
    thread: ThreadStack, table: ActivityTable, sources: _Sources
) -> tuple[str, Phase, str | None] | None:
    """Built-in and native calls leave no Python frame: the user's own innermost line names them."""
    frame = next((frame for frame in thread.frames if not frame.native), None)
    if frame is None or frame.line is None or not is_user_frame(frame, sources):
        return None
    source = find_source(sources, frame.file)
    if source is None:
        return None
    if calls_into_library(source, frame.line):
        return "native", Phase.OTHER, None
    calls = calls_on_line(source, frame.line)
    for call in reversed(calls):
        if call.endswith(".wait") and (operation := awaited_operation(source, frame.line)):
            return "collective", Phase.COMMUNICATION, operation
        row = table.of_call(call)
        if row is not None:
            return row.what, row.phase, row.operation
    if calls and thread.holds_gil:
        return "native", Phase.OTHER, None
    return None


def is_in_thread(frames: Sequence[Frame]) -> bool:
    """Of a thread that Python code has started."""
    return any(f.file.endswith("threading.py") and f.function.endswith("_bootstrap") for f in frames)


def is_main_thread(stack: StackDump, thread: ThreadStack) -> bool:
    """By its name, the id of the process, or the frame it began in."""
    if thread.name == "MainThread" or (stack.pid is not None and thread.thread_id == str(stack.pid)):
        return True
    python = [frame for frame in thread.frames if not frame.native]
    return bool(python) and python[-1].function in ("<module>", "_run_module_as_main")


# ---------------------------------------------------------------------------------------------------
# which thread


def _rank_of(reading: _Reading) -> int:
    if reading.operation is not None and not _is_plumbing(reading):
        return 6
    own = reading.where is not None
    if reading.is_main:
        if reading.what in BUSY_ELSEWHERE:
            return 2
        return 4 if _only_waits(reading) else 5
    if own and reading.phase in (Phase.COMPUTE, Phase.DATA) and reading.what not in _NOT_TRAINING:
        # It trains while the main thread sleeps or polls.
        return 5 if reading.what in _STEPS else 3
    return 3 if own and reading.what not in _NOT_TRAINING else 1


def _only_waits(reading: _Reading) -> bool:
    """Asleep, or idle in a built-in call that leaves no frame."""
    return reading.what == "sleep" or (reading.what == "user-code" and reading.thread.active is False)


_STEPS = {"backward", "forward", "optimizer", "dataloader-wait", "dataset-item", "collate", "device-sync"}
_NOT_TRAINING = (
    _BACKGROUND | BUSY_ELSEWHERE | {"tensorboard", "wandb", "experiment-log", "logging", "sleep", "download"}
)


def _is_plumbing(reading: _Reading) -> bool:
    """Threads of the library that carry a collective another thread has issued."""
    return reading.where is None and not reading.is_main and all(frame.native for frame in reading.thread.frames)


def _is_notable(reading: _Reading) -> bool:
    if reading.where is not None:
        return True
    if reading.thread.name.startswith(_BACKGROUND_NAMES) and reading.what in _BACKGROUND | _NATIVE_PLUMBING | {
        "native"
    }:
        return False
    if all(frame.native for frame in reading.thread.frames):
        return reading.operation is not None or reading.what in ("teardown", "communicator-init")
    return reading.what not in _BACKGROUND or reading.is_main


def _activity(stack: StackDump, reading: _Reading, sources: _Sources, main: _Reading | None = None) -> Activity:
    thread = reading.thread
    where, frames = reading.where, thread.frames
    if where is None and is_in_thread(frames):
        where = line_into_library(sources, frames)
    elif where is None and main is not None and main is not reading:
        # A thread of autograd runs the hook; the line that asked for it is the main thread's.
        where = main.where
    seen = frames if reading.where is not None or main is None else main.thread.frames
    context = stack_context([frame for frame in seen if is_user_frame(frame, sources)], sources)
    return Activity(
        phase=reading.phase,
        what=reading.what,
        where=where,
        frames=frames,
        thread=thread,
        context=context.context,
        evidence=Evidence(
            Source(stack.source.path, thread.line if thread.line is not None else stack.source.line),
            _text(frames, where),
            rank=stack.rank,
        ),
        operation=reading.operation,
    )


def _text(frames: Sequence[Frame], where: Where | None) -> str:
    """The innermost Python frames down to the user's own, as one line: ``wait (…) < main (train.py:18)``."""
    python = [frame for frame in frames if not frame.native] or list(frames)
    shown = python[:_EVIDENCE_FRAMES]
    places = [f"{f.file}:{f.line}" if f.line is not None else f.file for f in shown]
    parts = [f"{frame.function} ({place})" for frame, place in zip(shown, places, strict=True)]
    if where is not None and not any((f.file, f.line) == (where.file, where.line) for f in shown):
        parts += ["…", f"{where.function} ({where.file}:{where.line})"]
    return " < ".join(parts)
