"""The front process: start the command, pass signals on, reap, and end as it ended.

One thread. The command inherits standard input, output and error as they are; the watcher is a process of its own in
a session of its own and holds none of them, so nothing of ours can break a pipe of the job. When this process is
killed the command goes on; when the watcher is killed it is started again a few times, and then the job goes on
unwatched.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from unhang.records.control import Control
from unhang.watch import private_files
from unhang.watch.environment import environment_of_job
from unhang.watch.relay import Relay
from unhang.watch.run_folder import RunFolder, RunPlan

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""After these the command ends because somebody wants it to."""
TICK_S = 0.25
LAST_WORDS_S = 3.0
"""How long the watcher may take to say its last two lines after a command that ended well."""
LAST_VERDICT_S = 15.0
"""The same after one that failed: it has to be looked into."""
RESTARTS = 20
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_FROM_KERNEL = 0x80


class Front:
    """Runs one command beside one watcher."""

    def __init__(self, folder: RunFolder, plan: RunPlan) -> None:
        self._folder, self._plan = folder, plan
        self._watcher: subprocess.Popen[bytes] | None = None
        self._restarts = 0
        self._status: int | None = None
        self._relays = [Relay(folder.said, 2)]
        self._hurried = self._asked = False

    def run(self) -> int:
        """Run the command to its end; returns the exit code to leave with, or dies of the signal it died of."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED_ON, signal.SIGCHLD})
        try:
            self._start(before)
        except OSError as error:
            print(f"unhang: {self._plan.command[0]}: {error.strerror}", file=sys.stderr)
            self._clean_up()
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        while self._status is None:
            self._tick()
        self._close()
        return _leave_as(self._status)

    def _start(self, mask: set[int | signal.Signals]) -> None:
        plan = self._plan
        records = Path(plan.records)
        with suppress(OSError):
            Control.create(records).close()
        environment = environment_of_job(os.environ, records, self._folder.path)
        sys.stdout.flush()
        sys.stderr.flush()
        plan.job_pid = os.posix_spawnp(
            plan.command[0],
            plan.command,
            environment,
            file_actions=self._captured() if plan.capture else (),
            setsigmask=mask,
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores these; the command must not
        )
        plan.front_pid, plan.started_s = os.getpid(), time.time()
        with suppress(OSError):
            self._folder.write_plan(plan)
        self._start_watcher()

    def _captured(self) -> list[tuple[int, ...]]:
        """The command's output goes to files, and from there through us to where it would have gone."""
        actions: list[tuple[int, ...]] = []
        private_files.make_folder(self._folder.path / "logs")
        for target, name in ((1, "launcher.stdout.log"), (2, "launcher.log")):
            path = self._folder.path / "logs" / name
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            actions.append((os.POSIX_SPAWN_DUP2, number, target))
            self._relays.append(Relay(path, target))
        return actions

    def _start_watcher(self) -> None:
        command = [sys.executable, "-m", "unhang.watch.watcher", str(self._folder.path)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("UNHANG_RUN")}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with suppress(OSError):
            number = os.open(
                self._folder.path / ".unhang" / "watcher.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
            )
            with os.fdopen(number, "wb") as log:
                self._watcher = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    cwd=self._folder.path,
                    env=environment,
                )

    def _tick(self) -> None:
        told = signal.sigtimedwait({*PASSED_ON, signal.SIGCHLD}, TICK_S)
        if told is not None and told.si_signo == signal.SIGCHLD:
            self._reap()
        elif told is not None:
            self._pass_on(told)
        self._pump()

    def _pump(self) -> bool:
        """Print what was said since; True when all of it is out."""
        done = [relay.pump() for relay in self._relays]
        return all(done)

    def _pass_on(self, told: signal.struct_siginfo) -> None:
        self._asked = self._asked or (self._status is None and told.si_signo in ENDING)
        # What the terminal sends (Ctrl-C) goes to the whole foreground group: the command has it already.
        if told.si_code != _FROM_KERNEL and self._status is None:
            with suppress(ProcessLookupError):
                os.kill(self._plan.job_pid, told.si_signo)
        self._hurried = self._status is not None and told.si_signo != signal.SIGHUP

    def _reap(self) -> None:
        """Reap everything that ended, also what others left to us (we may be process 1)."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._plan.job_pid:
                self._status = status
            elif self._watcher is not None and pid == self._watcher.pid:
                self._watcher.returncode = os.waitstatus_to_exitcode(status)
                self._watcher_ended(self._watcher.returncode)

    def _watcher_ended(self, code: int) -> None:
        self._watcher = None
        if code == 0 or self._status is not None:
            return
        self._restarts += 1
        if self._restarts <= RESTARTS:
            self._start_watcher()
        else:
            self._folder.say("unhang: the watcher ended too often; the job goes on unwatched\n")

    def _close(self) -> None:
        """The command has ended: let the watcher say its last words, and leave nothing behind but the run folder."""
        assert self._status is not None
        ended = json.dumps({"status": self._status, "asked": self._asked, "at_s": time.time()}).encode()
        with suppress(OSError):
            private_files.replace(self._folder.ended, ended)
        deadline = time.monotonic() + (LAST_WORDS_S if self._status == 0 else LAST_VERDICT_S)
        while self._watcher is not None and not self._hurried and time.monotonic() < deadline:
            self._tick()
        if self._watcher is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._watcher.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._watcher.pid, 0)
        self._hurried = False
        while not self._pump() and not self._hurried:
            if not self._plan.capture and time.monotonic() > deadline:
                break
            self._tick()
        self._clean_up()

    def _clean_up(self) -> None:
        shutil.rmtree(self._plan.records, ignore_errors=True)


def _leave_as(status: int) -> int:
    """The command's exit code; where a signal ended it, the same signal ends us."""
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.flush()
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number  # process 1 does not die of its own signals
