"""One sample of a process, from the gentlest means to the last (py-spy, py-spy with C frames, ``/proc`` alone), and
whether it got on between samples.

``--nonblocking`` reads the memory of a running process and never stops it. ``--native`` stops it for a moment; should
py-spy die meanwhile, the process is set going again.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from unhang.evidence.items import Frame, StackDump, ThreadStack
from unhang.evidence.stacks.torn_stacks import is_torn
from unhang.facts.stacks.activity import activity_of
from unhang.watch.process_state.proc_processes import PROC, stat_fields, state_of, text_of
from unhang.watch.process_state.py_spy import HOPELESS, TOO_LONG, PySpyDump, dump_nonblocking, run_py_spy
from unhang.watch.process_state.sockets import unanswered_addresses

PY_SPY_LIMIT_S = 2.0
NONBLOCKING_LIMIT_S = 5.0
"""A second try with ``--nonblocking`` on a crowded machine: it stops nobody."""


@dataclass(frozen=True, slots=True)
class KernelSample:
    """What the kernel tells of the main thread. Empty texts and None: it does not tell us."""

    state: str = ""
    waits_in: str = ""
    system_call: str = ""
    cpu_ticks: int | None = None
    switches: int | None = None
    """Times it gave up the processor by itself; a thread that waits does not."""
    process_ticks: int | None = None
    """Processor time of all its threads."""
    file_bytes: int | None = None
    """Read and written, sockets apart."""
    work_wakes: int | None = None
    """Times the threads that run collectives (Gloo) and backward (on devices) gave up the processor: at least once a
    step, and not while they wait for a partner."""
    at_ns: int | None = None
    """Monotonic."""
    busy_ns: int | None = None
    """For so long the thread has used a processor or waited for one, since it began."""
    asleep_s: float | None = None
    """Since it ran last."""

    def as_json(self) -> dict[str, Any]:
        """What is known, for the bundle's manifest."""
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}


@dataclass(slots=True)
class ProcessSample:
    """One process at one moment. ``stack``: py-spy's JSON; ``dump``: the same, read; both None where not allowed."""

    pid: int
    at_s: float
    kernel: KernelSample
    stack: bytes | None = None
    dump: StackDump | None = None
    native: bool = False
    refused: str = ""
    """Why there is no stack, in one sentence."""
    unanswered: frozenset[tuple[str, int]] = frozenset()
    """Addresses and ports it tried to connect to."""


def sample_process(pid: int, *, native: bool = False) -> ProcessSample:
    """Sample once. ``native``: with C frames, unless the process is stopped (then attaching would wait for ever)."""
    kernel = sample_kernel(pid)
    found = ProcessSample(pid, time.time(), kernel, unanswered=unanswered_addresses(pid))
    if not kernel.state:
        found.refused = "it is gone"
        return found
    if native and kernel.state not in "Tt" and _dump_native(found):
        found.native = True
        return found
    if _dump_nonblocking(found, PY_SPY_LIMIT_S):
        return found
    if found.refused == TOO_LONG and _dump_nonblocking(found, NONBLOCKING_LIMIT_S):
        return found
    if kernel.state not in "Tt" and not native and found.refused not in HOPELESS:
        found.native = _dump_native(found)
    if found.dump is not None:
        found.refused = ""  # a part of it was seen
    return found


def resample_process(before: ProcessSample) -> ProcessSample:
    """A later sample; it takes over the stack of the sample before where the kernel shows that nothing happened."""
    kernel = sample_kernel(before.pid)
    told = kernel.switches is not None and kernel.cpu_ticks is not None and kernel.process_ticks is not None
    if before.dump is None or not told or _progress_key(kernel) != _progress_key(before.kernel):
        return sample_process(before.pid)
    return ProcessSample(
        before.pid,
        time.time(),
        kernel,
        before.stack,
        before.dump,
        before.native,
        unanswered=unanswered_addresses(before.pid),
    )


def _progress_key(kernel: KernelSample) -> tuple[object, ...]:
    return kernel.state, kernel.cpu_ticks, kernel.switches, kernel.process_ticks, kernel.system_call


def _dump_native(found: ProcessSample) -> bool:
    """Dump with C frames, which stops the process; resume it afterwards. Whether there is a stack."""
    try:
        taken = run_py_spy(found.pid, PY_SPY_LIMIT_S, "--json", "--native")
    finally:
        resume_if_stopped(found.pid, found.kernel.state)
    return _keep(found, taken)


def _dump_nonblocking(found: ProcessSample, limit_s: float) -> bool:
    """Dump without stopping; False (but kept) where the stack is torn."""
    taken = dump_nonblocking(found.pid, limit_s, "--json")
    return _keep(found, taken) and not (taken.dump is not None and is_torn(taken.dump))


def _keep(found: ProcessSample, taken: PySpyDump) -> bool:
    found.refused = taken.refused
    if taken.dump is None:
        return False
    found.stack, found.dump = taken.stack, taken.dump
    return True


def resume_if_stopped(pid: int, before: str, *, limit_s: float = 0.5) -> bool:
    """After a sample that stops a process: see that it is not left so. True when it had to be set going again."""
    if not before or before in "Tt":
        return False
    deadline = time.monotonic() + limit_s
    while _stopped_threads(pid):
        if time.monotonic() >= deadline:
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)
            return True
        time.sleep(0.05)
    return False


def _stopped_threads(pid: int) -> bool:
    return any(state in "Tt" for state in _thread_states(pid))


def _thread_states(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for task in (PROC / str(pid) / "task").iterdir():
            yield state_of(task.name, proc=task.parent)


def sample_kernel(pid: int) -> KernelSample:
    """The main thread's state, and where in the kernel it waits, as far as we may know."""
    folder = PROC / str(pid)
    task = folder / "task" / str(pid)
    stat = stat_fields(pid, proc=task.parent)
    if len(stat) < 13:
        return KernelSample()
    waits_in = text_of(task / "wchan").strip()
    return KernelSample(
        state=stat[0],
        waits_in="" if waits_in == "0" else waits_in,
        system_call=text_of(task / "syscall").strip()[:200],
        cpu_ticks=int(stat[11]) + int(stat[12]),
        switches=_switches(text_of(task / "status")),
        process_ticks=_ticks(stat_fields(pid)),
        file_bytes=_file_bytes(text_of(folder / "io")),
        work_wakes=_work_wakes(folder / "task"),
        at_ns=time.monotonic_ns(),
        busy_ns=_busy_ns(text_of(task / "schedstat")),
        asleep_s=_asleep_s(text_of(task / "sched"), stat[36:37]) if stat[0] in "SD" else None,
    )


def _busy_ns(schedstat: str) -> int | None:
    ran, delayed, *_ = (*schedstat.split(), "", "")
    return int(ran) + int(delayed) if ran.isdigit() and delayed.isdigit() else None


def _asleep_s(sched: str, processor: Sequence[str]) -> float | None:
    """By the scheduler's clock, which says of the thread that asks that it runs now. Each processor has one of its own
    (they drift apart by what a hypervisor takes): we ask on that on which the thread last ran."""
    ran_ms, ours = _ran_ms(sched), os.sched_getaffinity(0)
    now_ms = None
    with suppress(OSError, ValueError):
        os.sched_setaffinity(0, set(map(int, processor)))
        try:
            now_ms = _ran_ms(text_of(PROC / "thread-self" / "sched"))
        finally:
            os.sched_setaffinity(0, ours)
    return round((now_ms - ran_ms) / 1e3, 3) if ran_ms is not None and now_ms is not None and now_ms > ran_ms else None


def _ran_ms(sched: str) -> float | None:
    line = next((line for line in sched.splitlines() if line.startswith("se.exec_start ")), "")
    with suppress(ValueError):
        return float(line.rpartition(":")[2])
    return None


def _ticks(fields: list[str]) -> int | None:
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else None


def _file_bytes(io: str) -> int | None:
    told = [line.partition(":")[2].strip() for line in io.splitlines() if line.startswith(("rchar:", "wchar:"))]
    return sum(map(int, told)) if told and all(text.isdigit() for text in told) else None


_WORKING_THREADS = ("pt_autograd", "pt_gloo_runloop")


def _work_wakes(tasks: Path) -> int | None:
    with suppress(OSError):
        threads = [task for task in tasks.iterdir() if text_of(task / "comm").startswith(_WORKING_THREADS)]
        return sum(_switches(text_of(task / "status")) or 0 for task in threads) if threads else None
    return None


def _switches(status: str) -> int | None:
    for line in status.splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            with suppress(ValueError):
                return int(line.split()[1])
    return None


BUSY_TICKS = 3
BUSY_SHARE = 0.05
"""Of one processor: who computes on one line uses more even on a crowded machine, who polls uses less."""
FILE_BYTES = 1 << 16
"""A second: a writer that pauses between two rows makes less in the moment between two samples."""
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
    between_s = (last.at_ns - first.at_ns) / 1e9 if first.at_ns is not None and last.at_ns is not None else 1.0
    busy = _more(first.process_ticks, last.process_ticks, BUSY_TICKS)
    return not busy and not _more(first.file_bytes, last.file_bytes, FILE_BYTES * min(1.0, between_s))


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
    activity, _ = activity_of(dump, {})
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
