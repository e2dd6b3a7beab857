"""Leave out what stands in a stack only because we watch: our thread, and our function around init_process_group."""

from __future__ import annotations

from dataclasses import replace

from unhang.evidence.items import StackDump, ThreadStack
from unhang.knowledge.libraries import is_unhang_in_process

_OUR_THREAD = "_run"
"""Where the session's thread begins."""


def without_unhang_frames(dumps: list[StackDump]) -> list[StackDump]:
    """``dumps`` without the threads that we started and without our frames in the others."""
    for dump in dumps:
        dump.threads = tuple(thread for found in dump.threads if (thread := _without_unhang(found)) is not None)
    return dumps


def _without_unhang(thread: ThreadStack) -> ThreadStack | None:
    """None for a thread of ours: it began in our code."""
    python = [frame for frame in thread.frames if not frame.native and frame.file]
    if not any(is_unhang_in_process(frame.file) for frame in python):
        return thread
    if is_unhang_in_process(python[-1].file) and python[-1].function == _OUR_THREAD:
        return None
    return replace(thread, frames=tuple(frame for frame in thread.frames if not is_unhang_in_process(frame.file)))
