"""Evidence of a crash is on disk before the crash: faulthandler and excepthooks, where the program has not decided.

Files in the run folder: ``crash/rank_<N>.faulthandler`` (Python lines at a fatal signal) and
``crash/rank_<N>.except`` (one JSON object a line for each exception nobody caught; where the main thread falls, the
session writes a dump besides).

No timer of faulthandler's is used: its thread walks frames without the interpreter lock, so that one that fires in a
process that runs after all (a late heartbeat on an overloaded machine, Ctrl-Z and fg) can crash it. A thread that
holds the lock is seen from outside instead: by the heartbeat that stops, and py-spy.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from unhang.inprocess import code_phases, crash_ownership
from unhang.inprocess.capture.high_descriptors import OpenFile
from unhang.inprocess.internal_errors import log_internal_error
from unhang.wire.uncaught_exception import UncaughtException

CHECK_INTERVAL_NS = 1_000_000_000
_MESSAGE = 500
_MAX_SCANNED = 4000
"""A secret that is cut shows no longer that it is one: more is looked at than is kept."""
_FRAMES = 48


def _unpatched(function: Callable[..., Any]) -> Callable[..., Any]:
    """Faulthandler's own function behind the one that stands in its place."""
    return getattr(function, "__wrapped__", function)


class CrashEvidence:
    """Everything that waits for a crash in one rank. One process, made by our thread."""

    def __init__(self, folder: str, rank: int, falls: Callable[[TracebackType | None], None]) -> None:
        """``falls`` is called in the main thread when an exception ends it, after the line was written."""
        self.pid = os.getpid()
        self.stem = f"{folder}/crash/rank_{rank}"
        self._on_uncaught_exception = falls
        self._faults: OpenFile | None = None
        self._checked_ns = 0
        self._hooks: tuple[Any, Any] | None = None
        self._before: tuple[Any, Any] | None = None

    def set_up(self) -> None:
        """Open the files and switch on what the program has not decided about. Raises OSError without files."""
        os.makedirs(os.path.dirname(self.stem), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
        self._chain_hooks()
        self._faults = self._open("faulthandler")
        if not crash_ownership.user_reports_crashes and not _unpatched(faulthandler.is_enabled)():
            _unpatched(faulthandler.enable)(file=self._faults.number, all_threads=True)
            crash_ownership.unhang_reports_crashes = True

    def _open(self, ending: str) -> OpenFile:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return OpenFile(os.open(f"{self.stem}.{ending}", flags, 0o600))

    def beat(self, now_ns: int) -> None:
        """Let go of a file that the program closed under us; looked at once a second."""
        if now_ns - self._checked_ns < CHECK_INTERVAL_NS:
            return
        self._checked_ns = now_ns
        if crash_ownership.unhang_reports_crashes and (self._faults is None or not self._faults.is_still_ours()):
            _unpatched(faulthandler.disable)()
            crash_ownership.unhang_reports_crashes = False

    def leave_child(self) -> None:
        """In a forked child: nothing of it goes into its parent's files."""
        if crash_ownership.unhang_reports_crashes:
            _unpatched(faulthandler.disable)()
            crash_ownership.unhang_reports_crashes = False
        if self._faults is not None:
            self._faults.close()

    def end(self) -> None:
        """The interpreter shuts down in order: give hooks back, remove the file that stayed empty."""
        self._give_hooks_back()
        with suppress(OSError):
            faults = self._faults
            if faults is not None and faults.is_still_ours() and not os.fstat(faults.number).st_size:
                os.unlink(f"{self.stem}.faulthandler")  # noqa: PTH108

    def _chain_hooks(self) -> None:
        before, thread_before = sys.excepthook, threading.excepthook

        def excepthook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> Any:
            # the dump first, in milliseconds: because of another's fall a launcher may end this rank any moment
            if os.getpid() == self.pid and threading.current_thread() is threading.main_thread():
                self._on_uncaught_exception(trace)
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
            lines = traceback_lines(trace)
            path, line, function = _place(lines)
            said = UncaughtException(
                time_s=round(time.time(), 3),
                thread=thread,
                type=f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
                # what is loaded for it runs text as code, after which Python no longer ends by SIGINT as without us
                message="" if isinstance(value, KeyboardInterrupt) else _without_secrets(str(value)),
                file=path,
                line=line,
                function=function,
                frames=lines[-_FRAMES:],
            ).encode()  # before the file is there: whoever is ended in between leaves none
            number = os.open(f"{self.stem}.except", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(number, said)
            finally:
                os.close(number)
        except Exception as error:  # noqa: BLE001  the edge to the user's program
            log_internal_error("could not note an exception", error)


def _without_secrets(message: str) -> str:
    """The beginning of ``message`` as it may lie on disk; empty where its secrets cannot be removed."""
    try:
        from unhang.secrets import without_secrets

        return without_secrets(message[:_MAX_SCANNED])[:_MESSAGE]
    except Exception as error:  # noqa: BLE001  memory may be short, or the interpreter is on its way out
        log_internal_error("left the words of an exception out", error)
        return ""


def traceback_lines(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    """(file, line, function) of a traceback, innermost last, as Python prints it."""
    lines: list[tuple[str, int, str]] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        lines.append((code.co_filename, trace.tb_lineno or 0, code.co_name))
        trace = trace.tb_next
    return lines


def _place(lines: list[tuple[str, int, str]]) -> tuple[str, int, str]:
    """The innermost line of the user's own, else the innermost line."""
    own = next((line for line in reversed(lines) if code_phases.classify_file(line[0])[0]), None)
    return own or (lines[-1] if lines else ("", 0, ""))


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
        log_internal_error("the watcher may not look into this process", error)
