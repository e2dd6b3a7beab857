"""One look at a process, from the gentlest means to the last: py-spy, py-spy with C frames, ``/proc`` alone.

``--nonblocking`` reads the memory of a running process and never stops it. ``--native`` stops it for a moment; should
py-spy die meanwhile, the process is set going again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unhang.evidence.items import StackDump
from unhang.evidence.stacks import read_stacks
from unhang.evidence.stacks.torn_stacks import is_torn
from unhang.watch.process_state.complete_stacks import how_much, until_whole
from unhang.watch.process_state.py_spy_samples import find_py_spy
from unhang.watch.process_state.unanswered_connections import unanswered

PROC = Path("/proc")
LOOK_LIMIT_S = 2.0
HARMLESS_LIMIT_S = 5.0
"""A second try with ``--nonblocking`` on a crowded machine: it stops nobody."""
STACK_BYTES = 16 << 20
_OUR_FRAMES = ("unhang/inprocess/session.py", "unhang/lab/worker.py", "unhang_lab/worker.py")


@dataclass(frozen=True, slots=True)
class KernelLook:
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

    def as_json(self) -> dict[str, Any]:
        """What is known, for the bundle's manifest."""
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}


@dataclass(slots=True)
class Look:
    """One process at one moment. ``stack``: py-spy's JSON; ``dump``: the same, read; both None when nobody may look."""

    pid: int
    at_s: float
    kernel: KernelLook
    stack: bytes | None = None
    dump: StackDump | None = None
    native: bool = False
    refused: str = ""
    """Why there is no stack, in one sentence."""
    unanswered: frozenset[tuple[str, int]] = frozenset()
    """Addresses and ports it tried to connect to."""


def look_at(pid: int, *, native: bool = False) -> Look:
    """Look once. ``native``: with C frames, unless the process is stopped (then attaching would wait for ever)."""
    kernel = kernel_look(pid)
    found = Look(pid, time.time(), kernel, unanswered=unanswered(pid))
    if not kernel.state:
        found.refused = "it is gone"
        return found
    if native and kernel.state not in "Tt" and _take(found, ["--native"], LOOK_LIMIT_S):
        found.native = True
        return found
    if _take_whole(found, LOOK_LIMIT_S):
        return found
    if found.refused == _TOO_LONG and _take_whole(found, HARMLESS_LIMIT_S):
        return found
    if kernel.state not in "Tt" and not native and found.refused not in _HOPELESS:
        found.native = _take(found, ["--native"], LOOK_LIMIT_S)
    if found.dump is not None:
        found.refused = ""  # a part of it was seen
    return found


def look_again(before: Look) -> Look:
    """A later look: the stack of the look before stands for this one where the kernel shows that nothing happened."""
    kernel = kernel_look(before.pid)
    told = kernel.switches is not None and kernel.cpu_ticks is not None and kernel.process_ticks is not None
    if before.dump is None or not told or _what_happened(kernel) != _what_happened(before.kernel):
        return look_at(before.pid)
    return Look(
        before.pid, time.time(), kernel, before.stack, before.dump, before.native, unanswered=unanswered(before.pid)
    )


def _what_happened(kernel: KernelLook) -> tuple[object, ...]:
    return kernel.state, kernel.cpu_ticks, kernel.switches, kernel.process_ticks, kernel.system_call


_TOO_LONG = "py-spy took too long"
_NO_PY_SPY = "py-spy is not installed (pip install py-spy)"
_NO_PERMISSION = "looking into it needs SYS_PTRACE"
_HOPELESS = (_NO_PY_SPY, _NO_PERMISSION)


@dataclass(frozen=True, slots=True)
class _Taken:
    """One run of py-spy."""

    stack: bytes = b""
    dump: StackDump | None = None
    refused: str = ""


def _take(found: Look, options: list[str], limit_s: float) -> bool:
    """Look while it is stopped."""
    try:
        taken = _py_spy(found.pid, options, limit_s)
    finally:
        set_going(found.pid, found.kernel.state)
    return _keep(found, taken)


def _take_whole(found: Look, limit_s: float) -> bool:
    """Nobody is stopped, so what is seen may be torn: then it is kept, and the answer is no."""
    taken = until_whole(
        lambda left_s: _py_spy(found.pid, ["--nonblocking"], left_s),
        lambda taken: how_much(taken.dump, final=taken.refused in (*_HOPELESS, _TOO_LONG)),
        limit_s,
    )
    return _keep(found, taken) and not (taken.dump is not None and is_torn(taken.dump))


def _keep(found: Look, taken: _Taken) -> bool:
    found.refused = taken.refused
    if taken.dump is None:
        return False
    found.stack, found.dump = taken.stack, taken.dump
    return True


def _py_spy(pid: int, options: list[str], limit_s: float) -> _Taken:
    py_spy = find_py_spy()
    if py_spy is None:
        return _Taken(refused=_NO_PY_SPY)
    command = [py_spy, "dump", "--json", "--full-filenames", "--pid", str(pid), *options]
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit_s, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return _Taken(refused=_TOO_LONG)
    except OSError as error:
        return _Taken(refused=f"py-spy cannot be started ({error.strerror})")
    if done.returncode != 0 or len(done.stdout) > STACK_BYTES:
        return _Taken(refused=_why(done.stderr))
    dumps = [d for d in read_stacks(done.stdout, source=f"pid {pid}", rank=None) if d.threads]
    if not dumps:
        return _Taken(refused="py-spy saw no Python thread in it")
    return _Taken(done.stdout, dumps[0])


def _why(complaint: bytes) -> str:
    text = complaint.decode(errors="replace")
    lowered = text.lower()
    if "permission denied" in lowered or "operation not permitted" in lowered or "eperm" in lowered:
        return _NO_PERMISSION
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")
    return f"py-spy: {last[:200]}"


def set_going(pid: int, before: str, *, limit_s: float = 0.5) -> bool:
    """After a look that stops a process: see that it is not left so. True when it had to be set going again."""
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
            with suppress(OSError, IndexError):
                yield (task / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]


def kernel_look(pid: int, *, proc: Path = PROC) -> KernelLook:
    """The main thread's state, and where in the kernel it waits, as far as we may know."""
    task = proc / str(pid) / "task" / str(pid)
    stat = _text(task / "stat").rpartition(")")[2].split()
    if len(stat) < 13:
        return KernelLook()
    waits_in = _text(task / "wchan").strip()
    return KernelLook(
        state=stat[0],
        waits_in="" if waits_in == "0" else waits_in,
        system_call=_text(task / "syscall").strip()[:200],
        cpu_ticks=int(stat[11]) + int(stat[12]),
        switches=_switches(_text(task / "status")),
        process_ticks=_ticks(proc / str(pid) / "stat"),
        file_bytes=_file_bytes(_text(proc / str(pid) / "io")),
        work_wakes=_work_wakes(proc / str(pid) / "task"),
    )


def _ticks(path: Path) -> int | None:
    fields = _text(path).rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else None


def _file_bytes(io: str) -> int | None:
    told = [line.partition(":")[2].strip() for line in io.splitlines() if line.startswith(("rchar:", "wchar:"))]
    return sum(map(int, told)) if told and all(text.isdigit() for text in told) else None


_WORKING_THREADS = ("pt_autograd", "pt_gloo_runloop")


def _work_wakes(tasks: Path) -> int | None:
    with suppress(OSError):
        threads = [task for task in tasks.iterdir() if _text(task / "comm").startswith(_WORKING_THREADS)]
        return sum(_switches(_text(task / "status")) or 0 for task in threads) if threads else None
    return None


def _switches(status: str) -> int | None:
    for line in status.splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            with suppress(ValueError):
                return int(line.split()[1])
    return None


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def is_ours(dump: StackDump, thread: int) -> bool:
    """Whether a thread of ``dump`` is one of unhang's own."""
    found = dump.threads[thread]
    return found.name.startswith("unhang") or any(f.file.endswith(_OUR_FRAMES) for f in found.frames)
