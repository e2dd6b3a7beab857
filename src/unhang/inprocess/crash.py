"""Evidence of a crash is on disk before the crash: faulthandler and excepthooks, where the program has not decided.

Files in the run folder: ``crash/rank_<N>.faulthandler`` (Python lines at a fatal signal) and
``crash/rank_<N>.except`` (one JSON object a line for each exception nobody caught).

No timer of faulthandler's is used: its thread walks frames without the interpreter lock, so that one that fires in a
process that runs after all (a late heartbeat on an overloaded machine, Ctrl-Z and fg) can crash it. A thread that
holds the lock is seen from outside instead: by the heartbeat that stops, and py-spy.
"""

from __future__ import annotations

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

LOOK_EVERY_NS = 1_000_000_000
_HIGH = 900
_MESSAGE = 500


def _real(function: Callable[..., Any]) -> Callable[..., Any]:
    """Faulthandler's own function behind the one that stands in its place."""
    return getattr(function, "__wrapped__", function)


class CrashEvidence:
    """Everything that waits for a crash in one rank. One process, made by our thread."""

    def __init__(self, folder: str, rank: int) -> None:
        self.pid = os.getpid()
        self.stem = f"{folder}/crash/rank_{rank}"
        self.faults = -1
        self._inode: dict[int, int] = {}
        self._looked_ns = 0
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
        """Let go of a file that the program closed under us; looked at once a second."""
        if now_ns - self._looked_ns < LOOK_EVERY_NS:
            return
        self._looked_ns = now_ns
        if deciding.ours_reports_crashes and not self._still_ours(self.faults):
            _real(faulthandler.disable)()
            deciding.ours_reports_crashes = False

    def leave_child(self) -> None:
        """In a forked child: nothing of it goes into its parent's files."""
        if deciding.ours_reports_crashes:
            _real(faulthandler.disable)()
            deciding.ours_reports_crashes = False
        if self.faults >= 0:
            with suppress(OSError):
                os.close(self.faults)
        self.faults = -1

    def end(self) -> None:
        """The interpreter shuts down in order: give hooks back, remove the file that stayed empty."""
        self._give_hooks_back()
        with suppress(OSError):
            if self.faults >= 0 and self._still_ours(self.faults) and not os.fstat(self.faults).st_size:
                os.unlink(f"{self.stem}.faulthandler")  # noqa: PTH108

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
