"""Which stack format a file has, and all processes in it."""

from __future__ import annotations

from dataclasses import replace

from unhang.evidence.items import StackDump, ThreadStack
from unhang.evidence.stacks import faulthandler, gdb, py_spy
from unhang.evidence.stacks.stack_limits import MAX_BYTES, FrameBudget, decode
from unhang.findings import Source
from unhang.knowledge.libraries import is_unhang_in_process

_HEAD = 64 * 1024


def looks_like_stack(head: bytes) -> bool:
    """True when the first bytes of a file are a stack dump of a known format.

    A log that only contains a dump further down is not one; give it to :func:`read_stacks` all the same.
    """
    text = decode(head[:_HEAD])
    return (
        py_spy.looks_like_json(text)
        or py_spy.looks_like_text(text)
        or faulthandler.looks_like(text)
        or gdb.looks_like(text)
    )


def read_stacks(data: bytes, *, source: str, rank: int | None) -> list[StackDump]:
    """All processes of a stack dump, in the order of the file; never raises for bad input.

    ``rank`` is what the caller knows (from a bundle or the file's name); None when nothing tells. What could not be
    read stands in ``unread`` of the first dump. When there is no stack at all, the list holds one dump without
    threads that says why.
    """
    budget = FrameBudget(source, rank)
    if len(data) > MAX_BYTES:
        budget.note(f"only the first {MAX_BYTES // 1024**2} MB of {len(data) // 1024**2} MB were read")
    text = decode(data[:MAX_BYTES])
    dumps = _read(text, source, rank, budget)
    if not dumps:
        if not budget.notes:
            budget.note("no stack in a known format (py-spy, faulthandler, gdb)")
        return [StackDump(Source(source), rank, None, (), "", unread=tuple(budget.notes))]
    if not any(dump.threads for dump in dumps):
        budget.note("the dump ends before its first thread", dumps[0].source.line)
    dumps[0].unread = tuple(budget.notes)
    return without_unhang_frames(dumps)


def _read(text: str, source: str, rank: int | None, budget: FrameBudget) -> list[StackDump]:
    if py_spy.looks_like_json(text):
        return list(py_spy.read_json(text, source=source, rank=rank, budget=budget))
    # Several tools' output is often put into one file: every text reader takes what is its own.
    dumps = list(py_spy.read_text(text, source=source, rank=rank, budget=budget))
    if faulthandler.looks_like(text):
        dumps.extend(faulthandler.read(text, source=source, rank=rank, budget=budget))
    if not dumps or gdb.THREAD_ANYWHERE.search(text):
        dumps.extend(gdb.read(text, source=source, rank=rank, budget=budget))
    return sorted(dumps, key=lambda dump: dump.source.line or 0)


_OUR_THREAD, _OUR_NAMES = "_run", "unhang"
"""Where the session's thread begins, and how the names of our other threads do."""


def without_unhang_frames(dumps: list[StackDump]) -> list[StackDump]:
    """``dumps`` with the threads that we started set apart, and without our frames in the others."""
    for dump in dumps:
        threads, dump.threads, dump.own_threads = dump.threads, (), ()
        for thread in threads:
            if _is_ours(thread):
                dump.own_threads += (thread,)
            else:
                dump.threads += (_without_our_frames(thread),)
    return dumps


def _is_ours(thread: ThreadStack) -> bool:
    """It began in our code; or it was caught in flight, its beginning is lost, and nothing but our code is left."""
    ours = [is_unhang_in_process(frame.file) for frame in thread.frames if not frame.native and frame.file]
    if not any(ours) or thread.name == "MainThread":
        return thread.name.startswith(_OUR_NAMES)
    python = [frame.function for frame in thread.frames if not frame.native and frame.file]
    return all(ours) or (ours[-1] and python[-1].rpartition(".")[2] == _OUR_THREAD)


def _without_our_frames(thread: ThreadStack) -> ThreadStack:
    if not any(is_unhang_in_process(frame.file) for frame in thread.frames):
        return thread
    return replace(thread, frames=tuple(frame for frame in thread.frames if not is_unhang_in_process(frame.file)))
