"""Ranks as forked processes, watched: each step has a limit, and whoever does not come back is ended.

The process that forks has one thread and has loaded torch already, so that a rank starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from unhang.check.probe.probe_jobs import StepReport
from unhang.host.own_process import end_with_parent
from unhang.wire.documents.document import DECODE_ERRORS

GRACE_S = 1.5
"""A rank may say itself that a step failed; it is ended when it has not by then."""
_REAP_S = 2.0
_MAX_PRINTED = 64 << 10
_NCCL_WARNING = re.compile(r"NCCL WARN (.+)")


@dataclass(slots=True)
class _Child:
    rank: int
    pid: int
    pipe: int
    since: float
    """When it began what it is at."""
    step: int = -1
    rest: bytes = b""
    code: int | None = None
    printed: int = -1
    """A file without a name that holds what its libraries print."""
    closed: bool = False
    """It ended, or closed its pipe, before we ended it."""
    lines: list[StepReport] = field(default_factory=list)


def run_ranks(
    ranks: Sequence[int], work: Callable[[int, Callable[[StepReport], None]], None], *, limit_s: float, whole_s: float
) -> tuple[StepReport, ...]:
    """What ``ranks`` said about their steps; none of their processes is left.

    Args:
        ranks: one process each.
        work: what a rank does, with the function that takes what it says.
        limit_s: of one step. Everything ends soon after ``limit_s`` once a step has failed.
        whole_s: of all steps. A step that was cut off by it, and not by its own limit, is not in the answer.
    """
    children: list[_Child] = []
    try:
        children = [_start(rank, work, children) for rank in ranks]
        _watch(children, limit_s, time.monotonic() + whole_s)
    finally:
        ended = time.monotonic()
        _end(children)
    lines = tuple(line for child in children for line in _reported_lines(child, ended - child.since > limit_s))
    for child in children:
        os.close(child.printed)
    return lines


def _start(rank: int, work: Callable[[int, Callable[[StepReport], None]], None], before: Sequence[_Child]) -> _Child:
    ours, theirs = os.pipe()
    printed = os.memfd_create("unhang-rank")
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            for handle in (ours, *(child.pipe for child in before)):
                os.close(handle)
            _settle(parent, printed)
            work(rank, lambda line: _write(theirs, line))
        except BaseException as error:  # noqa: BLE001 - the process edge
            with contextlib.suppress(OSError):
                _write(theirs, StepReport(rank, 0, error=f"{type(error).__name__}: {error}"[:300]))
        finally:
            os._exit(0)
    os.close(theirs)
    return _Child(rank, pid, ours, time.monotonic(), printed=printed)


def _settle(parent: int, printed: int) -> None:
    """It ends with its parent, and what libraries print is kept apart: the parent's output is an answer."""
    if not end_with_parent(parent):
        os._exit(1)
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for handle in (1, 2):
        os.dup2(printed, handle)
    os.environ.setdefault("NCCL_DEBUG", "WARN")


def _write(handle: int, line: StepReport) -> None:
    """One write a line: what a pipe takes at once stays whole."""
    os.write(handle, msgspec.json.encode(line) + b"\n")


def _watch(children: list[_Child], limit_s: float, deadline: float) -> None:
    """Read until every rank has closed its pipe, or one has outlived its limit and the others had their chance too."""
    open_ = {child.pipe: child for child in children}
    with selectors.DefaultSelector() as selector:
        for pipe in open_:
            selector.register(pipe, selectors.EVENT_READ)
        failed_at: float | None = None
        while open_:
            for key, _ in selector.select(0.1):
                child = open_[key.fd]
                if not _read(child):
                    selector.unregister(key.fd)
                    del open_[key.fd]
            now = time.monotonic()
            late = [child for child in open_.values() if now - child.since > limit_s + GRACE_S]
            if failed_at is None and any(line.error for child in children for line in child.lines):
                failed_at = now
            if (
                now > deadline
                or len(late) == len(open_)
                or (failed_at is not None and now - failed_at > limit_s + GRACE_S)
            ):
                return
            if late and failed_at is None:
                failed_at = now


def _read(child: _Child) -> bool:
    """Take what is there; False at the end of the pipe."""
    data = os.read(child.pipe, 1 << 16)
    *whole, child.rest = (child.rest + data).split(b"\n")
    for text in whole:
        with contextlib.suppress(*DECODE_ERRORS):
            line = msgspec.json.decode(text, type=StepReport)
            child.lines.append(line)
            child.since, child.step = time.monotonic(), line.step if line.begun else -1
    child.closed = not data
    return bool(data)


def _end(children: Sequence[_Child]) -> None:
    for child in children:
        if not _ended(child):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
    deadline = time.monotonic() + _REAP_S
    while [child for child in children if not _ended(child)] and time.monotonic() < deadline:
        time.sleep(0.01)
    for child in children:
        os.close(child.pipe)


def _ended(child: _Child) -> bool:
    """A process in an uninterruptible wait (a dead driver) does not end; it is not waited for."""
    if child.code is None:
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                child.code = os.waitstatus_to_exitcode(status)
    return child.code is not None


def _reported_lines(child: _Child, outlived: bool) -> Iterator[StepReport]:
    """Its lines. One whose process ended by itself in a step says so; a step that was only cut off is left out."""
    died = child.closed and child.code is not None and child.code < 0
    cut = child.step >= 0 and not outlived and not died and not any(line.error for line in child.lines)
    yield from (line for line in child.lines if not (cut and line.begun and line.step == child.step))
    if child.step >= 0 and died:
        name = signal.Signals(-(child.code or 0)).name
        yield StepReport(child.rank, child.step, error=_warning(child) or f"its process ended by {name}")
    elif child.step >= 0 and outlived and (warning := _warning(child)):
        yield StepReport(child.rank, child.step, error=warning)


def _warning(child: _Child) -> str:
    """The last warning of NCCL in what it printed."""
    size = os.fstat(child.printed).st_size
    text = os.pread(child.printed, _MAX_PRINTED, max(0, size - _MAX_PRINTED)).decode("utf-8", "replace")
    found = _NCCL_WARNING.findall(text)
    return found[-1].strip()[:300] if found else ""
