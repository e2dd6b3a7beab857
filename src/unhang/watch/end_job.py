"""End a stalled job, or run the user's command about it: only ever because the user asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from unhang.sentences import Text, say
from unhang.watch import private_files
from unhang.watch.job.job_processes import processes_with_mark
from unhang.watch.launch.job_environment import RECORDS_VARIABLE
from unhang.watch.process_state.proc_processes import state_of
from unhang.watch.run_folder import RunFolder

GRACE_S = 5.0
COMMAND_LIMIT_S = 60.0
TIMED_OUT = (124, 137, -signal.SIGKILL)
"""How `timeout` ends when it had to end the command."""
_started: list[subprocess.Popen[bytes]] = []


class Abort:
    """Ends every process of the job: stopped ones at once, the others as their launcher would, then for good."""

    def __init__(self, commands: Iterable[int], records: Path) -> None:
        self._mark = f"{RECORDS_VARIABLE}={records}"
        self._deadline = time.monotonic() + GRACE_S
        for pid in self._mine():
            if state_of(pid) == "T":
                _send(pid, signal.SIGKILL)
        for pid in commands:
            _send(pid, signal.SIGTERM)

    def tick(self) -> None:
        """Called at every tick: what is left after the grace is ended for good."""
        if time.monotonic() > self._deadline:
            self.finish()

    def finish(self) -> None:
        """No process of the job is left after this."""
        for pid in self._mine():
            _send(pid, signal.SIGKILL)

    def _mine(self) -> tuple[int, ...]:
        # By pid, and only where the environment says that the process is of this run.
        return tuple(pid for pid in processes_with_mark(self._mark) if pid != os.getpid())


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def run_command(command: str, folder: RunFolder, cwd: str) -> None:
    """Start the user's command (a shell line) with the verdict on its standard input; nobody waits for it.

    It changes to ``cwd`` itself, and stays in the run folder where that is gone: a dead disk is its own matter.
    """
    shell = ["sh", "-c", 'cd "$1" 2>/dev/null; exec sh -c "$2"', "sh", cwd, command]
    limited = ["timeout", "-k", str(GRACE_S), str(COMMAND_LIMIT_S), *shell]
    with suppress(OSError), folder.localized_verdict.open("rb") as verdict, private_files.open_log(_log(folder)) as log:
        _started.append(
            subprocess.Popen(limited, stdin=verdict, stdout=log, stderr=log, start_new_session=True, cwd=folder.path)
        )


def failed_command_lines(folder: RunFolder) -> Iterator[Text]:
    """Reap the user's commands that have ended; a sentence about each that failed."""
    ended = [command.returncode for command in _started if command.poll() is not None]
    _started[:] = [command for command in _started if command.returncode is None]
    for code in ended:
        if code in TIMED_OUT:
            yield say("the --on-hang-exec command was killed after {seconds:.0f} s", seconds=COMMAND_LIMIT_S)
        elif code != 0:
            log = str(_log(folder))
            yield say("the --on-hang-exec command failed with exit code {code}; see {log}", code=code, log=log)


def _log(folder: RunFolder) -> Path:
    return folder.path / ".unhang" / "on-hang-exec.log"
