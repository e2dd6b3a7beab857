"""A rank whose main thread joins a thread of its own that waits itself: for room in a queue, an item, or a lock."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.facts.model import Facts, RankFacts, Stall
from unhang.facts.stacks.activity import is_main_thread
from unhang.facts.stacks.child_processes import lock_at
from unhang.facts.stacks.user_frames import first_user_frame, is_user_frame
from unhang.findings import Where
from unhang.knowledge.activities import bare_function
from unhang.program.syntax.syntax_tree import call_name, dotted, find_line

_TAKES = ("put", "get")


@dataclass(frozen=True, slots=True)
class JoinsWaitingThread:
    """The main thread joins ``thread`` at ``where``, and that one waits at ``waits``."""

    where: Where
    thread: str
    waits: Where
    call: str
    """``put`` or ``get`` of a queue, or ``acquire`` of a lock."""
    of: str
    """That queue or lock, as the source spells it; empty where it is not known."""


def joins_waiting_thread(facts: Facts, stall: Stall) -> JoinsWaitingThread | None:
    """Of all laggards the first; None where one of them does something else, or a thread of it may still go on."""
    found = [_of_rank(facts, facts.ranks[rank]) for rank in stall.laggards]
    return found[0] if found and None not in found else None


def _of_rank(facts: Facts, known: RankFacts) -> JoinsWaitingThread | None:
    stack, earlier = known.stack, known.earlier_stacks
    main = next((one for one in stack.threads if is_main_thread(stack, one)), None) if stack is not None else None
    where = first_user_frame(main.frames, facts.sources) if main is not None else None
    if stack is None or main is None or where is None or not _joins(facts, main):
        return None
    own = [t for t in stack.threads if t is not main and first_user_frame(t.frames, facts.sources) is not None]
    if not earlier or not all(_stood_there(thread, then) for thread in (main, *own) for then in earlier):
        return None
    waiting = [_waits(facts, where, thread) for thread in own]
    # which of several the line joins is not told; one that waits for nothing may yet serve the others
    places = {(one.waits, one.call) if one is not None else None for one in waiting}
    return waiting[0] if len(places) == 1 else None


def _inner(facts: Facts, thread: ThreadStack) -> Sequence[Frame]:
    """Python frames of libraries in which the innermost user line is."""
    python = (frame for frame in thread.frames if not frame.native)
    return tuple(takewhile(lambda frame: not is_user_frame(frame, facts.sources), python))


def _joins(facts: Facts, main: ThreadStack) -> bool:
    inner = _inner(facts, main)
    return any(bare_function(f.function) == "join" and f.file.endswith("threading.py") for f in inner)


def _stood_there(thread: ThreadStack, then: StackDump) -> bool:
    """An earlier look found it at the same lines, and none saw it on a processor."""
    was = next((one for one in then.threads if one.thread_id == thread.thread_id), None)
    alike = was is not None and _python(was) == _python(thread)
    return alike and not thread.active and was is not None and not was.active


def _python(thread: ThreadStack) -> tuple[Frame, ...]:
    return tuple(frame for frame in thread.frames if not frame.native)


def _waits(facts: Facts, where: Where, thread: ThreadStack) -> JoinsWaitingThread | None:
    """For another thread of the process alone: no queue of processes, and no library that works."""
    at, inner = first_user_frame(thread.frames, facts.sources), _inner(facts, thread)
    place = find_line(facts.sources, at.file, at.line) if at is not None else None
    if at is None:
        return None
    called = next((bare_function(f.function) for f in inner if f.file.endswith("/queue.py")), "")
    if called in _TAKES:
        calls = place.calls(at.line or 0) if place is not None else iter(())
        return JoinsWaitingThread(where, thread.name, at, called, next(_queues(calls, called), ""))
    lock = lock_at(facts, at) if all(f.file.endswith("/threading.py") for f in inner) else None
    return JoinsWaitingThread(where, thread.name, at, "acquire", lock) if lock else None


def _queues(calls: Iterator[ast.Call], called: str) -> Iterator[str]:
    for call in calls:
        if call_name(call) == called and isinstance(call.func, ast.Attribute):
            yield dotted(call.func.value)
