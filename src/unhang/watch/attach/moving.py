"""Whether a process got on between looks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from unhang.evidence.items import Frame, StackDump
from unhang.watch.attach.ladder import KernelLook, Look, is_ours

BUSY_TICKS = 3


def moved(looks: Sequence[Look], *, waits_asleep: bool) -> bool | None:
    """True: some look differs from the one before. None: not looked at twice.

    Args:
        waits_asleep: a collective of this job waits without using the processor (no GPU): a thread that woke up in
            between has come back to the same line.
    """
    seen = [look for look in looks if look.kernel.state]
    if len(seen) < 2:
        return None
    return any(_differs(a, b, waits_asleep=waits_asleep) for a, b in pairwise(seen))


def _differs(first: Look, second: Look, *, waits_asleep: bool) -> bool:
    if first.dump is not None and second.dump is not None:
        if _places(first.dump) != _places(second.dump):
            return True
        return waits_asleep and _inside_torch(second.dump) and _woke(first, second)
    if first.kernel.state in "Tt" and second.kernel.state in "Tt":
        return False
    return _worked(first.kernel, second.kernel) or first.kernel.system_call != second.kernel.system_call


def _places(dump: StackDump) -> set[tuple[str, tuple[Frame, ...]]]:
    """Python frames of every thread; C frames are in only some of the looks."""
    found = set()
    for number, thread in enumerate(dump.threads):
        frames = tuple(frame for frame in thread.frames if not frame.native and frame.line is not None)
        if frames and not is_ours(dump, number):
            found.add((thread.thread_id, frames))
    return found


def _inside_torch(dump: StackDump) -> bool:
    """The main thread waits in torch, not in a loop of the user's own that looks again every so often."""
    main = next((t for t in dump.threads if t.name == "MainThread"), None)
    frames = [frame for frame in main.frames if not frame.native] if main is not None else []
    return bool(frames) and "/torch/" in frames[0].file


def _woke(first: Look, second: Look) -> bool:
    before, after = first.kernel.switches, second.kernel.switches
    if before is None or after is None:
        return False
    # a loader's queue is looked at again every five seconds, which is no progress
    return after - before >= max(2.0, second.at_s - first.at_s)


def _worked(first: KernelLook, second: KernelLook) -> bool:
    if first.cpu_ticks is None or second.cpu_ticks is None:
        return False
    return second.cpu_ticks - first.cpu_ticks >= BUSY_TICKS
