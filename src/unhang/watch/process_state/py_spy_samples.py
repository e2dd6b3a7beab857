"""What a process is doing, seen from outside with py-spy."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from unhang.evidence.stacks import read_stacks
from unhang.watch.process_state.complete_stacks import completeness, retry_until_complete

PY_SPY_LIMIT_S = 6.0
NO_PY_SPY = "py-spy is not installed"
NO_PERMISSION = "looking into it needs SYS_PTRACE"
TOO_LONG = "py-spy took too long"
_FINAL = (NO_PY_SPY, NO_PERMISSION, TOO_LONG)
"""Another try would end the same way."""


@dataclass(frozen=True, slots=True)
class PySpyResult:
    """One try. ``text``: py-spy's dump, or None with the reason in ``refused``."""

    text: str | None
    refused: str = ""


def find_py_spy() -> str | None:
    """Path of py-spy: beside this Python, or on the search path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def stacks_of(pid: int, *, stopped: bool = False, native: bool = False, limit_s: float = PY_SPY_LIMIT_S) -> str | None:
    """py-spy's text dump of ``pid``, or None when it may not or cannot sample it. Our own thread is left out.

    Args:
        stopped: the process is in state ``T``; attaching to it would wait for it to go on.
        native: also C frames and our own thread, for a process that does not answer.
    """
    return dump_stacks(pid, stopped=stopped, native=native, limit_s=limit_s).text


def dump_stacks(
    pid: int, *, stopped: bool = False, native: bool = False, limit_s: float = PY_SPY_LIMIT_S
) -> PySpyResult:
    """As :func:`stacks_of`, with the reason where there is nothing to see."""
    py_spy = find_py_spy()
    if py_spy is None:
        return PySpyResult(None, NO_PY_SPY)
    command = [py_spy, "dump", "--full-filenames", "--pid", str(pid)]
    if stopped:
        command.append("--nonblocking")
        return retry_until_complete(lambda left_s: _dump(command, native=native, limit_s=left_s), _seen, limit_s)
    return _dump([*command, "--native"] if native else command, native=native, limit_s=limit_s)


def _seen(looked: PySpyResult) -> float:
    if looked.text is None:
        return completeness(None, final=looked.refused in _FINAL)
    return completeness(read_stacks(looked.text.encode(), source="py-spy", rank=None)[0])


def _dump(command: list[str], *, native: bool, limit_s: float) -> PySpyResult:
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return PySpyResult(None, TOO_LONG)
    except OSError as error:
        return PySpyResult(None, f"py-spy cannot be started ({error.strerror})")
    if done.returncode != 0 or b"Thread" not in done.stdout:
        return PySpyResult(None, _why_not(done.stderr))
    text = done.stdout.decode(errors="replace")
    # In a silent process our thread is evidence: it waits for the interpreter lock that another one holds.
    return PySpyResult(text if native else without_our_thread(text))


def _why_not(complaint: bytes) -> str:
    text = "".join(c for c in complaint.decode(errors="replace") if c.isprintable() or c == "\n")
    if any(word in text.lower() for word in ("permission denied", "operation not permitted", "eperm")):
        return NO_PERMISSION
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")
    return f"py-spy: {last[:200]}"


def without_our_thread(text: str) -> str:
    """A dump of py-spy or faulthandler without the threads that are ours: they are not part of the job."""
    blocks = re.split(r"(?m)^(?=Thread |Current thread )", text)
    return "".join(block for block in blocks if not _OUR_THREAD.search(block) and not _OUR_FRAME.search(block))


_OUR_THREAD = re.compile(r'"unhang(?:-\w+)?"$', re.MULTILINE)
_OUR_FRAME = re.compile(
    r'unhang[/_]lab/worker\.py", line \d+ in watch$'
    r'|unhang/inprocess/session\.py", line \d+ in _run$|^    (?:\w+\.)*_run \(.*unhang/inprocess/session\.py:\d+\)$',
    re.MULTILINE,
)


def same_place(first: str, second: str) -> bool:
    """Whether two dumps of one process show every thread in the same Python frames."""
    return _python_frames(without_our_thread(first)) == _python_frames(without_our_thread(second))


def _python_frames(text: str) -> list[str]:
    # Native frames and threads are in only one of two samples of a silent rank; "(idle)" comes and goes by itself.
    return re.findall(r"(?m)^    .+\.py:\d+\)$", text)
