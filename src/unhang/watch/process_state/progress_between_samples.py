"""Whether a process got on between samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.facts.stacks.activity import activity_of
from unhang.watch.process_state.stack_collection import ProcessSample, is_unhang_thread

BUSY_TICKS = 3
BUSY_SHARE = 0.05
"""Of one processor: who computes on one line uses more even on a crowded machine, who polls uses less."""
FILE_BYTES = 1 << 16
TICKS_A_SECOND = 100


def has_moved(samples: Sequence[ProcessSample], *, waits_asleep: bool) -> bool | None:
    """True: some sample differs from the one before. False: nothing differs. None: not sampled twice, or it stands on
    one line and uses the processor, as waiting for a GPU does and computing too.

    Args:
        waits_asleep: a collective of this job waits without using the processor (no GPU): a thread that woke up in
            between has come back to the same line, and one that is busy computes.
    """
    seen = [sample for sample in samples if sample.kernel.state]
    if len(seen) < 2:
        return None
    answers = {_differs(a, b, waits_asleep=waits_asleep) for a, b in pairwise(seen)}
    return True if True in answers else None if None in answers else False


def is_idle(samples: Sequence[ProcessSample]) -> bool:
    """Neither the processor nor files were used between the first sample and the last, as far as the kernel tells."""
    seen = [sample for sample in samples if sample.kernel.state]
    if len(seen) < 2:
        return False
    first, last = seen[0].kernel, seen[-1].kernel
    busy = _more(first.process_ticks, last.process_ticks, BUSY_TICKS)
    return not busy and not _more(first.file_bytes, last.file_bytes, FILE_BYTES)


def _differs(first: ProcessSample, second: ProcessSample, *, waits_asleep: bool) -> bool | None:
    if first.kernel.state in "Tt" and second.kernel.state in "Tt":
        return False
    if first.dump is None or second.dump is None:
        worked = _more(first.kernel.cpu_ticks, second.kernel.cpu_ticks, BUSY_TICKS)
        return worked or first.kernel.system_call != second.kernel.system_call
    before, after = _training(first.dump), _training(second.dump)
    if before is None or after is None or _place(before) != _place(after):
        return True
    if _more(first.kernel.work_wakes, second.kernel.work_wakes, 1):
        return True
    if after.name != "MainThread":
        return False  # what the kernel counted is the main thread's
    if waits_asleep and _inside_torch(after) and _woke(first, second):
        return True
    if _computes(first, second):
        return True if waits_asleep else None
    return False


def _training(dump: StackDump) -> ThreadStack | None:
    """The thread that issues collectives: others (a progress bar, a thread that reports) go on while it waits."""
    own = tuple(thread for number, thread in enumerate(dump.threads) if not is_unhang_thread(dump, number))
    activity, _ = activity_of(replace(dump, threads=own), {})
    return activity.thread if activity is not None else None


def _place(thread: ThreadStack) -> tuple[str, tuple[Frame, ...]]:
    """Its Python frames; C frames are in only some of the samples."""
    return thread.thread_id, tuple(frame for frame in thread.frames if not frame.native and frame.line is not None)


def _inside_torch(thread: ThreadStack) -> bool:
    """It waits in torch, not in a loop of the user's own that looks again every so often."""
    frames = [frame for frame in thread.frames if not frame.native]
    return bool(frames) and "/torch/" in frames[0].file


def _woke(first: ProcessSample, second: ProcessSample) -> bool:
    before, after = first.kernel.switches, second.kernel.switches
    if before is None or after is None:
        return False
    # a loader's queue is looked at again every five seconds, which is no progress
    return after - before >= max(2.0, second.at_s - first.at_s)


def _computes(first: ProcessSample, second: ProcessSample) -> bool:
    """The main thread used a good part of a processor."""
    wanted = BUSY_SHARE * (second.at_s - first.at_s) * TICKS_A_SECOND
    return _more(first.kernel.cpu_ticks, second.kernel.cpu_ticks, max(BUSY_TICKS, wanted))


def _more(before: int | None, after: int | None, least: float) -> bool:
    return before is not None and after is not None and after - before >= least
