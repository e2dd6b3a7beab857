"""py-spy's dump of a process; one taken without stopping it may be torn, or none, and is tried again a few times.

What a rank's own record tells of its stack is said as py-spy would: where py-spy saw nothing, or only a part.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from unhang.evidence.items import Frame, StackDump
from unhang.evidence.stacks import read_stacks
from unhang.evidence.stacks.torn_stacks import is_torn, main_thread_depth
from unhang.wire.record_views import RecordView

TRIES = 6
"""Of samples of a rank that generates text one in four is torn or fails (py-spy 0.4); each takes some 12 ms."""
LIMIT_S = 6.0
STACK_BYTES = 16 << 20
NO_PY_SPY = "py-spy is not installed"
NO_PERMISSION = "looking into it needs SYS_PTRACE"
TOO_LONG = "py-spy took too long"
HOPELESS = (NO_PY_SPY, NO_PERMISSION)

Attempt = TypeVar("Attempt")


@dataclass(frozen=True, slots=True)
class PySpyDump:
    """What py-spy printed, as it is and read; nothing, with the reason in ``refused``."""

    stack: bytes = b""
    dump: StackDump | None = None
    refused: str = ""

    @property
    def text(self) -> str | None:
        """What it printed; None where it saw nothing."""
        return self.stack.decode(errors="replace") if self.dump is not None else None


def find_py_spy() -> str | None:
    """Path of py-spy: beside this Python, or on the search path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def dump_stacks(pid: int, *, stopped: bool = False, native: bool = False, limit_s: float = LIMIT_S) -> PySpyDump:
    """py-spy's dump of ``pid`` as text, without the threads that are ours.

    Args:
        stopped: the process is in state ``T``; attaching to it would wait for it to go on.
        native: also C frames and our own thread, for a process that does not answer.
    """
    options = ["--native"] if native else []
    found = dump_nonblocking(pid, limit_s) if stopped else run_py_spy(pid, limit_s, *options)
    if native or found.dump is None:
        return found  # in a silent process our thread is evidence: it waits for the lock that another one holds
    return replace(found, stack=_without_own_threads(found.stack, found.dump))


def dump_nonblocking(pid: int, limit_s: float, *options: str) -> PySpyDump:
    """Dump without stopping it: the first dump that is whole, else the one that saw most."""
    return retry_until_complete(
        lambda left_s: run_py_spy(pid, left_s, "--nonblocking", *options),
        lambda found: completeness(found.dump, final=found.refused in (*HOPELESS, TOO_LONG)),
        limit_s,
    )


def run_py_spy(pid: int, limit_s: float, *options: str) -> PySpyDump:
    """Run it once."""
    py_spy = find_py_spy()
    if py_spy is None:
        return PySpyDump(refused=NO_PY_SPY)
    command = [py_spy, "dump", "--full-filenames", "--pid", str(pid), *options]
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit_s, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return PySpyDump(refused=TOO_LONG)
    except OSError as error:
        return PySpyDump(refused=f"py-spy cannot be started ({error.strerror})")
    if done.returncode != 0 or len(done.stdout) > STACK_BYTES:
        return PySpyDump(refused=_why_not(done.stderr))
    dumps = [dump for dump in read_stacks(done.stdout, source=f"pid {pid}", rank=None) if dump.threads]
    if not dumps:
        return PySpyDump(refused="py-spy saw no Python thread in it")
    return PySpyDump(done.stdout, dumps[0])


def _why_not(complaint: bytes) -> str:
    text = "".join(c for c in complaint.decode(errors="replace") if c.isprintable() or c == "\n")
    if any(word in text.lower() for word in ("permission denied", "operation not permitted", "eperm")):
        return NO_PERMISSION
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")
    return f"py-spy: {last[:200]}"


def retry_until_complete(
    sample: Callable[[float], Attempt], seen_of: Callable[[Attempt], float], limit_s: float
) -> Attempt:
    """The first sample that is whole, else the one that saw most.

    Args:
        sample: one try, in so many seconds at most.
        seen_of: :func:`completeness` of it; endless ends the tries.
        limit_s: of all tries together.
    """
    deadline = time.monotonic() + limit_s
    best = sample(limit_s)
    most = seen_of(best)
    for _ in range(TRIES - 1):
        left_s = deadline - time.monotonic()
        if most == math.inf or left_s <= 0:
            break
        again = sample(left_s)
        if (seen := seen_of(again)) > most:
            best, most = again, seen
    return best


def completeness(dump: StackDump | None, *, final: bool = False) -> float:
    """Frames of the main thread; endless when they are whole; below zero without a sample.

    ``final``: another try would end the same way.
    """
    if dump is None:
        return math.inf if final else -1
    return main_thread_depth(dump) if is_torn(dump) else math.inf


def _without_own_threads(text: bytes, dump: StackDump) -> bytes:
    """``text`` without the lines of the threads that ``dump``, read from it, holds apart."""
    begins = sorted(thread.line or 0 for thread in (*dump.threads, *dump.own_threads))
    lines = text.splitlines(keepends=True)
    for thread in reversed(dump.own_threads):
        end = next((line for line in begins if line > (thread.line or 0)), len(lines) + 1)
        del lines[(thread.line or 1) - 1 : end - 1]
    return b"".join(lines)


def same_place(first: str, second: str) -> bool:
    """Whether two dumps of one process show every thread in the same Python frames."""
    return _python_frames(first) == _python_frames(second)


def _python_frames(text: str) -> list[Frame]:
    # Native frames and threads are in only one of two samples of a silent rank; "(idle)" comes and goes by itself.
    threads = (thread for dump in read_stacks(text.encode(), source="py-spy", rank=None) for thread in dump.threads)
    return [frame for thread in threads for frame in thread.frames if not frame.native]


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
