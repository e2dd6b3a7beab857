"""The command runner: start the command, pass signals on, reap, and end as it ended.

One thread. The command inherits standard input, output and error as they are; the watcher is a process of its own in
a session of its own and holds none of them, so nothing of ours can break a pipe of the job. When this process is
killed the command goes on; when the watcher is killed it is started again.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from unhang.report.language import translate
from unhang.sentences import Text, say
from unhang.watch.launch import signals
from unhang.watch.launch.job_environment import environment_of_job
from unhang.watch.launch.masked_log import MaskedLog, MaskingProcess
from unhang.watch.launch.output_capture import OutputCapture, output_targets
from unhang.watch.launch.output_relay import OutputRelay, printed_so_far
from unhang.watch.launch.records_folder import JoinedRun, Lock, alive_lock, remove_records
from unhang.watch.launch.signals import SignalWitness
from unhang.watch.launch.tasks import STOP_REQUEST_VALID_S, Task, read_tasks
from unhang.watch.launch.watcher_process import WatcherProcess
from unhang.wire.documents.run_plan import RunPlan

TICK_S = 0.25
FINAL_LINES_LIMIT_S = 3.0
"""How long the watcher may take to say its last two lines after a command that ended well, or a reader to take them."""
FINAL_VERDICT_LIMIT_S = 15.0
"""The same after one that failed: it has to be looked into."""
OUTPUT_LOCK_LIMIT_S, OUTPUT_LOCK_TICK_S = 2.0, 0.02
CLEAN_LIMIT_S = 30.0
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class CommandRunner:
    """Runs one command. Of several tasks on a machine one has the floor: it keeps the watcher and prints its lines."""

    def __init__(self, meeting: JoinedRun, plan: RunPlan) -> None:
        self._meeting, self._plan = meeting, plan
        self._watcher = WatcherProcess(meeting.folder.path, meeting.records)
        self._witness: SignalWitness | None = None
        self._task = Task(meeting.number, os.getpid())
        self._status: int | None = None
        self._captured: list[OutputCapture] = []
        self._masked: list[MaskedLog] = []
        """Their files."""
        self._masking: MaskingProcess | None = None
        self._lines: OutputRelay | None = None
        self._output_lock, self._alive = Lock(meeting.records / "floor"), alive_lock(meeting.records)
        self._asked_at = float("-inf")
        self._interrupted = self._stopping = False
        self._stopped_by = 0

    def run(self) -> int:
        """Run the command to its end; returns the exit code to leave with, or dies of the signal it died of."""
        before = signals.block_all()
        self._alive.acquire(shared=True)
        self._witness = SignalWitness(self._plan.command)
        try:
            self._start(before)
        except OSError as error:
            _print(say("{command}: {reason}", command=self._plan.command[0], reason=error.strerror or str(error)))
            self._end_task(NOT_EXECUTABLE << 8)
            self._leave(time.monotonic())
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        while self._status is None:
            try:
                self._tick()
            except Exception:  # noqa: BLE001, PERF203 - the process edge: the command goes before anything of ours
                time.sleep(TICK_S)
        with suppress(Exception):
            self._close(self._status)
        return _exit_like(self._status)

    def _start(self, mask: set[int]) -> None:
        plan, records = self._plan, self._meeting.records
        environment = environment_of_job(os.environ, records, self._meeting.folder.path)
        if plan.capture:
            self._capture()
        _flush()
        try:
            plan.job_pid = os.posix_spawnp(
                plan.command[0],
                plan.command,
                environment,
                file_actions=[action for capture in self._captured for action in capture.actions],
                setsigmask=mask,
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores these; the command must not
            )
        finally:
            for capture in self._captured:
                capture.close_child_end()
        plan.front_pid, plan.started_s = os.getpid(), time.time()
        self._task.job_pid, self._task.started_s = plan.job_pid, plan.started_s
        self._note()
        if not self._meeting.folder.plan_file.exists():
            self._meeting.folder.write_plan(plan)
        self._take_output_lock()

    def _capture(self) -> None:
        """What the command prints is kept on its way; where that cannot be, it goes the way it would have gone."""
        logs = self._meeting.folder.path / "logs"
        if self._meeting.count > 1:
            logs = logs / "attempt_0" / str(self._meeting.number)
        names = ("launcher.stdout.log", "launcher.log") if self._meeting.count == 1 else ("stdout.log", "stderr.log")
        try:
            self._masking = MaskingProcess()
            for targets in output_targets():
                path = logs / names[targets[-1] - 1]
                held, on_cut = (self._masking.held,), self._cut_callback(path)
                self._captured.append(OutputCapture(targets, path, self._plan.lang, held, on_cut))
                self._masked.append(MaskedLog(path))
            self._masking.start(self._masked)
        except OSError as error:
            text = say("the output is not saved ({reason}); the command runs without --capture", reason=str(error))
            _print(translate(text, self._plan.lang))

    def _cut_callback(self, log: Path) -> Callable[[], None]:
        from unhang.watch.sampling.kept_logs import note_cut  # a command that is not captured starts without it

        return partial(note_cut, self._meeting.records, log.relative_to(self._meeting.folder.path).as_posix())

    def _take_output_lock(self) -> bool:
        """Whether the floor is ours: then the watcher and its lines are our business."""
        if self._output_lock.number is None and self._output_lock.acquire():
            self._lines = OutputRelay(self._meeting.folder.said, 2, noted=self._output_lock.number)
        if self._output_lock.number is not None:
            self._watcher.keep()
        return self._output_lock.number is not None

    def _tick(self, seconds: float = TICK_S) -> None:
        told = signal.sigtimedwait(signals.AWAITED, seconds)
        if told is not None and told.si_signo == signal.SIGCHLD:
            self._reap()
        elif told is not None and not signals.is_our_own(told):
            self._pass_on(told)
        self._stop_with_command()
        self._take_output_lock()
        self._pump()

    def _pump(self) -> bool:
        """Print what was said since; True when all of it is out."""
        return self._lines is None or self._lines.pump()

    def _pass_on(self, told: signal.struct_siginfo) -> None:
        number = told.si_signo
        if self._status is not None:
            self._interrupted = self._interrupted or (number in signals.ENDING and number != signal.SIGHUP)
            return
        if number in signals.ENDING and not signals.is_ignored(number):
            self._asked_at, self._task.asked_s = time.monotonic(), time.time()
            self._note()
        self._stopping = number in signals.STOPPING or (self._stopping and number != signal.SIGCONT)
        heard = self._witness.heard(number) if self._witness is not None else None
        # Without a witness: what the terminal sends goes to its whole foreground group.
        if heard if heard is not None else signals.is_from_terminal(told):
            return
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self._plan.job_pid, number)

    def _reap(self) -> None:
        """Reap everything that ended, also what others left to us (we may be process 1)."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                if pid == self._plan.job_pid:
                    self._stopped_by = os.WSTOPSIG(status) if os.WIFSTOPPED(status) else 0
            elif pid == self._plan.job_pid:
                self._status = status
            elif pid == self._watcher.pid:
                if self._watcher.ended(status) and self._status is None:
                    self._meeting.folder.say(_line(say("the watcher exited too often; the job continues unwatched")))
            else:
                self._helper_ended(pid, status)

    def _helper_ended(self, pid: int, status: int) -> None:
        for capture in self._captured:
            capture.reaped(pid, status)
        if self._masking is not None:
            self._masking.reaped(pid, status)
        if self._witness is not None:
            self._witness.reaped(pid)

    def _stop_with_command(self) -> None:
        """The terminal stopped the command (Ctrl-Z): the shell waits for us, not for it."""
        if self._stopped_by and self._stopping:
            number, self._stopped_by, self._stopping = self._stopped_by, 0, False
            signals.stop_self(number)

    def _close(self, status: int) -> None:
        """The command has ended: let the watcher say its last words, and leave nothing behind but the run folder."""
        self._end_task(status)
        failed = any(task.failed for task in read_tasks(self._meeting.records))
        deadline = time.monotonic() + (FINAL_VERDICT_LIMIT_S if status != 0 or failed else FINAL_LINES_LIMIT_S)
        if self._task.failed:
            self._wait_for_verdict(deadline)
        self._leave(deadline)

    def _end_task(self, status: int) -> None:
        self._task.status, self._task.ended_s = status, time.time()
        self._task.asked = time.monotonic() - self._asked_at < STOP_REQUEST_VALID_S
        self._note()

    def _wait_for_verdict(self, deadline: float) -> None:
        """A failure of one task: mpirun ends all others as soon as we leave, and with them the one who prints why."""
        if not any(self._meeting.records.glob("*.rec")):
            return
        while not self._interrupted and not self._is_last() and time.monotonic() < deadline:
            if self._meeting.folder.is_verdict_printed(self._printed(), self._task.ended_s or 0.0):
                return
            self._tick()

    def _printed(self) -> int:
        """By whoever has the floor. Closing a file gives back every lock on it: ours is not opened again."""
        if self._output_lock.number is not None:
            return printed_so_far(self._output_lock.number)
        with suppress(OSError), (self._meeting.records / "floor").open("rb") as noted:
            return printed_so_far(noted.fileno())
        return 0

    def _leave(self, deadline: float) -> None:
        self._watcher.done = True
        for capture in self._captured:
            capture.over()
        while not all(capture.drained() for capture in self._captured) and not self._interrupted:
            self._tick(OUTPUT_LOCK_TICK_S)
        self._clean_logs()
        if self._witness is not None:
            self._witness.end()
        if not (self._is_last() and self._wait_for_output_lock(deadline)):
            self._output_lock.release()
            return  # others still run: the watcher stays with them, and whoever takes the floor prints on
        self._interrupted = False
        while self._watcher.is_running() and not self._interrupted and time.monotonic() < deadline:
            self._tick()
        self._watcher.end()
        deadline = min(deadline, time.monotonic() + FINAL_LINES_LIMIT_S)
        while not self._pump() and not self._interrupted and time.monotonic() < deadline:
            self._tick()
        if len(read_tasks(self._meeting.records)) >= self._meeting.count:
            remove_records(self._meeting.records)
        self._output_lock.release()

    def _clean_logs(self) -> None:
        for masked in self._masked:
            left = masked.finish(CLEAN_LIMIT_S)
            if left:
                _print(say("{count} bytes of the captured output were not searched for secrets", count=left))

    def _wait_for_output_lock(self, deadline: float) -> bool:
        """Whoever had it may be on the way out, or about to say why this task failed."""
        if not self._task.failed:
            deadline = time.monotonic() + OUTPUT_LOCK_LIMIT_S
        while not self._take_output_lock() and time.monotonic() < deadline and self._meeting.records.exists():
            if self._interrupted:
                return False
            self._tick(OUTPUT_LOCK_TICK_S)
        return self._output_lock.number is not None

    def _is_last(self) -> bool:
        return all(task.over for task in read_tasks(self._meeting.records))

    def _note(self) -> None:
        with suppress(OSError):
            self._task.write(self._meeting.records)


def run_unwatched(command: Sequence[str], error: OSError) -> NoReturn:
    """Become ``command``: there is no place for what we keep, and that must not keep a job from running."""
    _print(say("cannot write the records ({reason}); the command runs unwatched", reason=str(error)))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores these; the command must not
    try:
        os.execvp(command[0], list(command))  # noqa: S606 - the user's own command
    except OSError as missing:
        _print(say("{command}: {reason}", command=command[0], reason=missing.strerror or str(missing)))
        sys.exit(NOT_FOUND if isinstance(missing, FileNotFoundError) else NOT_EXECUTABLE)


def _line(text: Text | str) -> str:
    return f"unhang: {text}\n"


def _print(text: Text | str) -> None:
    with suppress(OSError, ValueError):
        print(_line(text), end="", file=sys.stderr, flush=True)


def _flush() -> None:
    """What we printed so far goes before the command's; a stream may be closed, or its disk full."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _exit_like(status: int) -> int:
    """The command's exit code; where a signal ended it, the same signal ends us."""
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _flush()
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number  # process 1 does not die of its own signals
