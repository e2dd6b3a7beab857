"""A short-lived child of the watcher that takes evidence and judges it: whatever goes wrong in it ends with it."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from unhang.watch import earlier_evidence, private_files
from unhang.watch.attach.ladder import set_going
from unhang.watch.collecting import Interrupted, Order, take
from unhang.watch.run_folder import RunFolder
from unhang.watch.summary import Summary, read_summary, write_summary

LIMIT_S = 60.0
MEMORY = 4 << 30
_PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class Child:
    """One running look. ``states``: of the ranks' processes when it began, by pid."""

    pid: int
    folder: RunFolder
    number: int
    deadline: float
    states: Mapping[int, str] = field(default_factory=dict)
    ended: bool = False

    @classmethod
    def start(cls, order: Order, folder: RunFolder, *, waited_s: float, width: int) -> Child:
        """Fork. The watcher has one thread, and everything the child needs is loaded already."""
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _work(order, folder, waited_s, width)
                code = 0
            except Interrupted:
                code = 0
            except BaseException:  # noqa: BLE001 - the process edge
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        states = {member.pid: member.state for member in order.members.values() if member.ended_ns is None}
        return cls(pid, folder, order.number, time.monotonic() + LIMIT_S, states)

    def over(self) -> bool:
        """Whether it has ended; one that takes too long is ended."""
        if not self.ended:
            pid, _ = os.waitpid(self.pid, os.WNOHANG)
            self.ended = pid != 0
            if not self.ended and time.monotonic() > self.deadline:
                self.end()
        return self.ended

    def wait(self) -> None:
        """Until it has ended."""
        while not self.over():
            time.sleep(0.02)

    def end(self) -> None:
        """End it and what it started now; a rank that py-spy held just then goes on."""
        if self.ended:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.ended = True
        for pid, before in self.states.items():
            set_going(pid, before)
        earlier_evidence.restore(self.folder.path)

    def answer(self) -> tuple[Summary, str] | None:
        """(summary, text for people); None when it came to nothing."""
        summary = read_summary(_summary_path(self.folder, self.number))
        if summary is None:
            return None
        with suppress(OSError):
            return summary, _text_path(self.folder, self.number).read_text(encoding="utf-8")
        return None


def _work(order: Order, folder: RunFolder, waited_s: float, width: int) -> None:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from unhang.watch.verdicts import conclude

    taken = take(order, folder.path)
    summary, text = conclude(order, taken, folder.path, waited_s=waited_s, width=width)
    private_files.write(_text_path(folder, order.number), text.encode("utf-8", "backslashreplace"))
    write_summary(_summary_path(folder, order.number), summary)


def _summary_path(folder: RunFolder, number: int) -> Path:
    return folder.path / ".unhang" / f"summary-{number}.json"


def _text_path(folder: RunFolder, number: int) -> Path:
    return folder.path / ".unhang" / f"verdict-{number}.txt"
