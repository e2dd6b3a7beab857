"""Child processes of a rank: where loader workers are, and a lock that a thread held while its process forked."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.facts.model import Facts, RankFacts
from unhang.facts.stacks.activity import activity_of, frames_since_fork
from unhang.facts.stacks.user_frames import first_user_frame, is_user_frame
from unhang.findings import Evidence, Source, Where
from unhang.knowledge.activities import bare_function
from unhang.program.syntax.syntax_tree import dotted, find_line
from unhang.wire.documents.bundle import LiveChild

AWAITS_CHILDREN = ("process-pool", "child-process", "queue-wait", "subprocess")
"""What a rank does that waits for a process which it started."""


def stopped_children(known: RankFacts) -> Iterator[LiveChild]:
    """In process state T, where the rank waits for what a process of its own does."""
    awaits, what = known.process.awaits, known.activity.what if known.activity is not None else ""
    if what in (*AWAITS_CHILDREN, "dataloader-wait") or awaits.pipe_ends:
        yield from (child for child in awaits.children if child.state == "T")


def partner_child(known: RankFacts) -> LiveChild | None:
    """The one child at the other end of the pipe in which the rank sleeps, or the program that it waits for; no worker
    of torch's loader."""
    awaits, waits = known.process.awaits, known.activity is not None and known.activity.what == "subprocess"
    workers = {stack.pid for stack in known.worker_stacks if _place(stack, known.rank) is not None}
    ends = [one for one in awaits.children if one.pid not in workers and (waits or one.pid in awaits.pipe_ends)]
    return ends[0] if len(ends) == 1 else None


def hands_over(known: RankFacts) -> int | None:
    """The child whose work is done and whose queue holds it until somebody has taken what it put there."""
    if known.activity is None or known.activity.what != "child-process":
        return None
    ends = (c.pid for c in known.worker_stacks for t in c.threads if any(map(_is_queues_end, t.frames)))
    return next(ends, None)


def _is_queues_end(frame: Frame) -> bool:
    return bare_function(frame.function) == "_finalize_join" and frame.file.endswith("/queues.py")


def loader_workers(facts: Facts, rank: int) -> list[Evidence]:
    """Where the loader workers of ``rank``: ``read_sample (data.py:14)``; user frame first."""
    return [evidence for stack in facts.ranks[rank].worker_stacks if (evidence := _place(stack, rank)) is not None]


def _place(stack: StackDump, rank: int) -> Evidence | None:
    for thread in stack.threads:
        if not any(frame.function == "_worker_loop" for frame in thread.frames):
            continue
        frame = next((f for f in thread.frames if is_user_frame(f)), thread.frames[0])
        text = f"{frame.function} ({frame.file}:{frame.line})"
        return Evidence(Source(stack.source.path, thread.line), text, rank)
    return None


def worker_line(stack: StackDump) -> Where | None:
    """The line of the program at which a loader's worker is."""
    loops = (t.frames for t in stack.threads if any(frame.function == "_worker_loop" for frame in t.frames))
    return next((where for frames in loops if (where := first_user_frame(frames_since_fork(frames)))), None)


@dataclass(frozen=True, slots=True)
class AwaitedChild:
    """Child ``pid`` is at ``where``; its rank waits for a process that it started."""

    pid: int
    where: Where
    active: bool
    """It was seen on a processor."""
    forked: bool
    lock: str
    """What the program calls the lock that it waits for, which a thread held when it was forked; or empty."""
    holder: str
    """Thread of the parent that uses the same lock; empty where none is seen."""
    evidence: Evidence


def awaited_children(facts: Facts, known: RankFacts) -> Iterator[AwaitedChild]:
    """Those at a line of the program, where the rank waits for a child; which of them, the stacks do not tell."""
    if known.activity is None or known.activity.what not in AWAITS_CHILDREN:
        return
    for child in known.worker_stacks:
        activity, _ = activity_of(child, facts.sources)
        if child.pid is None or activity is None or activity.where is None or _place(child, known.rank) is not None:
            continue
        forked, where, thread = _is_forked(child), activity.where, activity.thread
        lock = (forked and len(child.threads) == 1 and lock_at(facts, where)) or ""
        holder = next((t.name for t in _others(known.stack) if lock and _uses(facts, t, lock)), "")
        active = thread is not None and thread.active is True
        yield AwaitedChild(child.pid, where, active, forked, lock, holder, activity.evidence)


def _is_forked(child: StackDump) -> bool:
    """Frames of the parent lie below its own: a process that was spawned has none."""
    frames = child.threads[0].frames
    return len(frames_since_fork(frames)) < len(frames)


def _others(stack: StackDump | None) -> tuple[ThreadStack, ...]:
    return tuple(t for t in stack.threads if t.name != "MainThread") if stack is not None else ()


def lock_at(facts: Facts, where: Where) -> str | None:
    """What the line takes: ``with NAME:`` or ``NAME.acquire()``; its first line inside counts, which is where the
    interpreter is while it waits in some versions."""
    place = find_line(facts.sources, where.file, where.line)
    if place is None or where.line is None:
        return None
    if isinstance(place.statement, ast.With | ast.AsyncWith):
        return dotted(place.statement.items[0].context_expr) or None
    called = (dotted(call.func) for call in place.calls(where.line))
    return next((name.removesuffix(".acquire") for name in called if name.endswith(".acquire")), None)


def _uses(facts: Facts, thread: ThreadStack, name: str) -> bool:
    """It stands in a function that takes the same lock."""
    where = first_user_frame(thread.frames, facts.sources)
    place = find_line(facts.sources, where.file, where.line) if where is not None else None
    if place is None:
        return False
    taken = (
        item.context_expr for node in ast.walk(place.function) if isinstance(node, ast.With) for item in node.items
    )
    return any(dotted(one) == name for one in taken)
