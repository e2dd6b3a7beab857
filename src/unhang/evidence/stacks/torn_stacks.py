"""Torn stacks: py-spy that does not stop a process may follow a frame that has ended meanwhile, and loses the rest.

Seen here: of a rank that generates text, one sample in eight ended after a few frames, one in six failed.
"""

from __future__ import annotations

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.evidence.stacks.faulthandler import is_main_stack


def is_torn(dump: StackDump) -> bool:
    """Whether the main thread's stack does not reach where a program begins.

    So it is too while the interpreter shuts down, and for good in a program whose main is not Python's.
    """
    main = _main_thread(dump)
    if main is None or not dump.format.startswith("py-spy"):
        return False
    return not is_main_stack(main.frames)


def is_torn_off(dump: StackDump, earlier: StackDump) -> bool:
    """Whether ``dump`` is torn and ``earlier`` is whole and shows its outermost call further in: no stack ends so."""
    if not is_torn(dump) or is_torn(earlier):
        return False
    main, before = _main_thread(dump), _main_thread(earlier)
    if main is None or before is None:
        return False
    inside = {_call(frame) for frame in before.frames[:-1]}
    python = [frame for frame in main.frames if not frame.native]
    return bool(python) and _call(python[-1]) in inside


def main_thread_depth(dump: StackDump) -> int:
    """How many Python frames the main thread has; 0 without one."""
    main = _main_thread(dump)
    return len(main.frames) if main is not None else 0


def _main_thread(dump: StackDump) -> ThreadStack | None:
    for thread in dump.threads:
        if thread.name == "MainThread" or (dump.pid is not None and thread.thread_id == str(dump.pid)):
            return thread
    return None


def _call(frame: Frame) -> tuple[str, str]:
    return frame.file, frame.function
