"""The commands of one run on this machine: one, or one a task of a batch system; each with a command runner of its own.

Each command runner writes one small file into the records folder, which is local and needs no room on a full disk.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from unhang.watch import private_files
from unhang.watch.process_state.proc_processes import lives
from unhang.wire.documents.document import DECODE_ERRORS

STOP_REQUEST_VALID_S = 120.0
"""A command that ends so long after it was asked to has ended for a reason of its own."""


class Task(msgspec.Struct):
    """One command. ``status``: its wait status once it ended; ``asked``: somebody had asked it to end, at ``asked_s``.

    ``job_pid`` is 0 before it was started.
    """

    number: int = 0
    front_pid: int = 0
    job_pid: int = 0
    status: int | None = None
    asked: bool = False
    asked_s: float | None = None
    started_s: float = 0.0
    ended_s: float | None = None

    def write(self, records: Path) -> None:
        """Write its file anew. Raises OSError where there is no room."""
        private_files.write_atomically(records / "tasks" / f"{self.number}.json", msgspec.json.encode(self))

    @property
    def failed(self) -> bool:
        """It ended badly, and nobody had asked it to end."""
        return self.status not in (0, None) and not self.asked

    @property
    def is_runner_alive(self) -> bool:
        """Whether the process that started it is there to tell how it ended."""
        return Path(f"/proc/{self.front_pid}").exists()

    @property
    def over(self) -> bool:
        """Whether it has ended, as its command runner says, or its process where that is gone."""
        if self.status is not None:
            return True
        return not self.is_runner_alive and (self.job_pid == 0 or not lives(self.job_pid))


def read_tasks(records: Path) -> list[Task]:
    """All tasks of the run so far, by number."""
    found = []
    for path in (records / "tasks").glob("[0-9]*.json"):
        with suppress(OSError, *DECODE_ERRORS):
            found.append(msgspec.json.decode(path.read_bytes(), type=Task))
    return sorted(found, key=lambda task: task.number)


class Tasks:
    """The tasks as the watcher follows them."""

    def __init__(self, records: Path) -> None:
        self._records = records
        self._pidfds: dict[int, int] = {}
        self.now = read_tasks(records)

    def over(self) -> bool:
        """Whether every command has ended."""
        self.now = read_tasks(self._records)
        return all(self._over(task) for task in self.now)

    def _over(self, task: Task) -> bool:
        number = self._pidfd(task)
        if number is None:
            return task.over
        return bool(select.select([number], [], [], 0)[0])

    def _pidfd(self, task: Task) -> int | None:
        if task.status is None and task.job_pid and task.job_pid not in self._pidfds:
            with suppress(OSError, AttributeError):
                self._pidfds[task.job_pid] = os.pidfd_open(task.job_pid)
        return self._pidfds.get(task.job_pid)

    @property
    def wait_pidfd(self) -> int | None:
        """A pidfd that becomes readable when a command ends; None where there is none to wait on."""
        return next(iter(number for pid, number in self._pidfds.items() if self._running(pid)), None)

    def _running(self, pid: int) -> bool:
        return any(task.job_pid == pid and task.status is None for task in self.now)

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of the commands that still run."""
        return tuple(task.job_pid for task in self.now if task.job_pid and task.status is None)

    def told(self) -> bool:
        """Whether every command runner that still lives has said how its command ended."""
        self.now = read_tasks(self._records)
        return all(task.status is not None or not task.is_runner_alive for task in self.now)

    def failed(self) -> bool | None:
        """Whether a command ended badly that nobody had asked to end; None when nobody can tell."""
        ended = [task for task in self.now if task.status is not None]
        return any(task.failed for task in ended) if ended else None

    def asked_s(self) -> float | None:
        """When somebody last asked a command that still runs to end; None where nobody did lately."""
        asked = [task.asked_s for task in self.now if task.asked_s is not None and task.status is None]
        return max((at_s for at_s in asked if time.time() - at_s < STOP_REQUEST_VALID_S), default=None)

    def ended_well(self) -> bool:
        """Whether every command ended with 0."""
        return bool(self.now) and all(task.status == 0 for task in self.now)

    def are_runners_gone(self) -> bool:
        """Whether nobody is left to clean up."""
        return not any(task.is_runner_alive for task in self.now)
