"""The stack that a rank's own record tells: for samples from outside that saw nothing, or only a part."""

from __future__ import annotations

import re

from unhang.evidence.stacks import read_stacks
from unhang.evidence.stacks.torn_stacks import is_torn
from unhang.wire.record_views import RecordView


def recorded_stack(view: RecordView, pid: int) -> str:
    """The stack a rank's own record tells, as py-spy would print it."""
    head = f"Process {pid}: python\nPython v{view.identity.python or '3'} (python)\n\n"
    return head + _recorded_thread(view, pid)


def _recorded_thread(view: RecordView, pid: int) -> str:
    frames = "\n".join(_py_spy_frame(line) for line in view.stack.splitlines())
    return f'Thread {view.thread_id or pid} (idle): "MainThread"\n{frames}\n'


def complete_from_record(text: str, view: RecordView, pid: int) -> str | None:
    """``text``, py-spy's dump of ``pid``, with the main thread as the rank's own record tells it.

    None where the dump is whole, or the record tells of another thread.
    """
    dump = read_stacks(text.encode(), source="py-spy", rank=None)[0]
    if not view.stack or view.thread_id != pid or not is_torn(dump):
        return None
    blocks = re.split(r"(?m)^(?=Thread )", text)
    mains = [number for number, block in enumerate(blocks) if block.startswith(f"Thread {pid} ")]
    if not mains:
        return None
    blocks[mains[0]] = _recorded_thread(view, pid)
    return "".join(blocks)


def _py_spy_frame(line: str) -> str:
    rest, _, function = line.rpartition(":")
    file, _, number = rest.rpartition(":")
    return f"    {function} ({file}:{number})"
