"""Evidence of a crash is on disk before the crash: faulthandler and excepthooks, where the program has not decided.

Files in the run folder: ``crash/rank_<N>.faulthandler`` (Python lines at a fatal signal), ``crash/rank_<N>.held``
(Python lines written by a timer when our heartbeat cannot run because a thread holds the interpreter lock; empty
otherwise), ``crash/rank_<N>.except`` (one JSON object a line for each exception nobody caught).
"""

from __future__ import annotations

import _thread
import faulthandler
import fcntl
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from unhang.inprocess import deciding, phases
from unhang.inprocess.trouble import tell

HELD_AFTER_S = 2.5
"""A thread that has not let another one run for so long holds the interpreter lock."""
ARM_EVERY_NS = 1_000_000_000
_HIGH = 900
_MESSAGE = 500


def _real(function: Callable[..., Any]) -> Callable[..., Any]:
    """Faulthandler's own function behind the one that stands in its place."""
    return getattr(function, "__wrapped__", function)


class CrashEvidence:
    """Everything that waits for a crash in one rank. One process, made and re-armed by our thread."""

    def __init__(self, folder: str, rank: int) -> None:
        self.pid = os.getpid()
        self.stem = f"{folder}/crash/rank_{rank}"
        self.faults = self.held = -1
        self._inode: dict[int, int] = {}
        self._timer_ns = 0
        self._timer_on = False
        self._lock = _thread.allocate_lock()
        self._forking = False
        self._hooks: tuple[Any, Any] | None = None
        self._before: tuple[Any, Any] | None = None

    def set_up(self) -> None:
        """Open the files and switch on what the program has not decided about. Raises OSError without files."""
        os.makedirs(os.path.dirname(self.stem), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
        self._chain_hooks()
        self.faults = self._open("faulthandler")
        if not deciding.users_reports_crashes and not _real(faulthandler.is_enabled)():
            _real(faulthandler.enable)(file=self.faults, all_threads=True)
            deciding.ours_reports_crashes = True
        self.held = self._open("held")

    def _open(self, ending: str) -> int:
        """A file with a high number: programs that close or count the low ones do not meet it."""
        path = f"{self.stem}.{ending}"
        low = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        try:
            number = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, max(3, min(_HIGH, limit - 64)))
        except OSError:
            return self._remember(low)
        os.close(low)
        return self._remember(number)

    def _remember(self, number: int) -> int:
        self._inode[number] = os.fstat(number).st_ino
        return number

    def _still_ours(self, number: int) -> bool:
        try:
            return os.fstat(number).st_ino == self._inode[number]
        except OSError:
            return False

    def beat(self, now_ns: int) -> None:
        """Push the timer ahead, once a second; let go of files the program closed under us."""
        if now_ns - self._timer_ns < ARM_EVERY_NS:
            return
        if deciding.ours_reports_crashes and not self._still_ours(self.faults):
            _real(faulthandler.disable)()
            deciding.ours_reports_crashes = False
        if self.held < 0 or deciding.users_timer:
            return
        if not self._still_ours(self.held):
            self._stop_timer()
            self.held = -1
            return
        self._timer_ns = now_ns
        if os.fstat(self.held).st_size:
            os.ftruncate(self.held, 0)
        if self._lock.acquire(False):  # taken while the program forks
            try:
                if not deciding.users_timer:  # asked last, with nothing in between that waits
                    _real(faulthandler.dump_traceback_later)(HELD_AFTER_S, file=self.held)
                    self._timer_on = True
            finally:
                self._lock.release()

    def _stop_timer(self) -> None:
        if self._timer_on and not deciding.users_timer:
            _real(faulthandler.cancel_dump_traceback_later)()
        self._timer_on = False

    def before_fork(self) -> None:
        """A forked child of a process with a running timer never ends in order (CPython 3.11): stop it first."""
        self._forking = self._lock.acquire(True, 1.0)
        self._stop_timer()

    def after_fork(self) -> None:
        """In the parent: the next heartbeat sets the timer again."""
        self._timer_ns = 0
        if self._forking:
            self._forking = False
            self._lock.release()

    def leave_child(self) -> None:
        """In a forked child: nothing of it goes into its parent's files."""
        if deciding.ours_reports_crashes:
            _real(faulthandler.disable)()
            deciding.ours_reports_crashes = False
        for number in (self.faults, self.held):
            if number >= 0:
                with suppress(OSError):
                    os.close(number)
        self.faults = self.held = -1

    def end(self) -> None:
        """The interpreter shuts down in order: stop the timer, give hooks back, remove what stayed empty."""
        with suppress(Exception):
            self._stop_timer()
        self._give_hooks_back()
        for number, ending in ((self.held, "held"), (self.faults, "faulthandler")):
            with suppress(OSError):
                if number >= 0 and self._still_ours(number) and not os.fstat(number).st_size:
                    os.unlink(f"{self.stem}.{ending}")  # noqa: PTH108

    def _chain_hooks(self) -> None:
        before, thread_before = sys.excepthook, threading.excepthook

        def excepthook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> Any:
            self._note("MainThread", kind, value, trace)
            return before(kind, value, trace)

        def thread_excepthook(args: threading.ExceptHookArgs, /) -> Any:
            if args.exc_type is not SystemExit:
                self._note(getattr(args.thread, "name", ""), args.exc_type, args.exc_value, args.exc_traceback)
            return thread_before(args)

        self._before, self._hooks = (before, thread_before), (excepthook, thread_excepthook)
        sys.excepthook, threading.excepthook = excepthook, thread_excepthook

    def _give_hooks_back(self) -> None:
        if self._hooks is None or self._before is None:
            return
        if sys.excepthook is self._hooks[0]:
            sys.excepthook = self._before[0]
        if threading.excepthook is self._hooks[1]:
            threading.excepthook = self._before[1]

    def _note(
        self, thread: str, kind: type[BaseException], value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """One line for an exception nobody caught; the program's own hook runs after it whatever happens here."""
        try:
            if os.getpid() != self.pid:
                return
            path, line, function = _place(trace)
            said = {
                "time_s": round(time.time(), 3),
                "thread": thread,
                "type": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
                "message": str(value)[:_MESSAGE],
                "file": path,
                "line": line,
                "function": function,
            }
            number = os.open(f"{self.stem}.except", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(number, json.dumps(said).encode() + b"\n")
            finally:
                os.close(number)
        except Exception as error:  # noqa: BLE001  the edge to the user's program
            tell("could not note an exception", error)


def _place(trace: TracebackType | None) -> tuple[str, int, str]:
    """The innermost line of the user's own, else the innermost line."""
    place = ("", 0, "")
    own = False
    while trace is not None:
        code = trace.tb_frame.f_code
        users = phases.of_file(code.co_filename)[0]
        if users or not own:
            place, own = (code.co_filename, trace.tb_lineno or 0, code.co_name), own or users
        trace = trace.tb_next
    return place


_PR_SET_PTRACER = 0x59616D61
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"


def allow_watcher(pid: int) -> None:
    """Where Linux lets only parents look into a process (Yama), allow the watcher and what it starts."""
    if pid <= 0 or not os.path.exists(_YAMA):  # noqa: PTH110
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
    except (OSError, AttributeError, ImportError) as error:
        tell("the watcher may not look into this process", error)
