"""End a stalled job, or run the user's command about it: only ever because the user asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from unhang.watch import processes
from unhang.watch.environment import RECORDS
from unhang.watch.run_folder import RunFolder

GRACE_S = 5.0
COMMAND_LIMIT_S = 60.0
_started: list[subprocess.Popen[bytes]] = []


class Abort:
    """Ends every process of the job: stopped ones at once, the others as their launcher would, then for good."""

    def __init__(self, commands: Iterable[int], records: Path) -> None:
        self._mark = f"{RECORDS}={records}"
        self._deadline = time.monotonic() + GRACE_S
        for pid in self._mine():
            look = processes.look_at(pid)
            if look is not None and look.state == "T":
                _send(pid, signal.SIGKILL)
        for pid in commands:
            _send(pid, signal.SIGTERM)

    def go_on(self) -> None:
        """Called at every tick: what is left after the grace is ended for good."""
        if time.monotonic() > self._deadline:
            self.finish()

    def finish(self) -> None:
        """No process of the job is left after this."""
        for pid in self._mine():
            _send(pid, signal.SIGKILL)

    def _mine(self) -> tuple[int, ...]:
        # By pid, and only where the environment says that the process is of this run.
        return tuple(pid for pid in processes.marked(self._mark) if pid != os.getpid())


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def run_command(command: str, folder: RunFolder) -> None:
    """Start the user's command (a shell line) with the verdict on its standard input; nobody waits for it."""
    with suppress(OSError):
        verdict = folder.verdict_told.open("rb")
        log = (folder.path / ".unhang" / "on-hang-exec.log").open("ab")
        limited = ["timeout", "-k", str(GRACE_S), str(COMMAND_LIMIT_S), "sh", "-c", command]
        _started.append(
            subprocess.Popen(limited, stdin=verdict, stdout=log, stderr=log, start_new_session=True, cwd=folder.path)
        )
        verdict.close()
        log.close()


def reap() -> None:
    """Reap the user's commands that have ended."""
    _started[:] = [command for command in _started if command.poll() is None]
