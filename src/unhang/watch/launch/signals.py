"""Which signals the command runner takes in place of its command, and what they say about the command's end.

A signal that was sent to the command runner alone is told from one that its command has got as well: Ctrl-C,
``kill -TERM -GROUP``, ``pkill -f`` and a batch system reach the command without us; to pass such a signal on would be
to send it twice. The kernel does not say for whom else a signal was meant, so a process that does nothing stands beside
us, in our group and under the name of the command, and blocks everything: what is pending there was not for us alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from unhang.host.own_process import end_with_parent
from unhang.watch.launch.helper_process import detach, fork_helper
from unhang.watch.process_state.proc_processes import PROC, text_of

_OURS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD)
CAUGHT = frozenset(number for number in signal.valid_signals() if number not in _OURS)
"""All but those nobody can take; SIGCHLD is about our children."""
AWAITED = CAUGHT | {signal.SIGCHLD}
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""After these the command ends because somebody wants it to."""
STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
"""Job control: the command stops, and we with it, so that the shell sees its job stop."""
FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS)
_FROM_KERNEL = 0x80


def block_all() -> set[int]:
    """Block them all: they wait until they are asked for. Returns what the command is to block, as we found it."""
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)}


def is_our_own(told: signal.struct_siginfo) -> bool:
    """A signal about something we did ourselves: a pipe of ours broke."""
    return told.si_signo in (signal.SIGPIPE, signal.SIGXFSZ) and told.si_pid == os.getpid()


def is_from_terminal(told: signal.struct_siginfo) -> bool:
    """Sent by the kernel, mostly to a whole group."""
    return told.si_code == _FROM_KERNEL


def is_ignored(number: int) -> bool:
    """Ignored since before us (nohup): the command ignores it too."""
    return signal.getsignal(number) == signal.SIG_IGN


def stop_self(number: int) -> None:
    """Stop, by the signal that stopped the command; returns when we are told to go on."""
    if number in STOPPING:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    else:
        os.kill(os.getpid(), signal.SIGSTOP)


SETTLES_S = (0.0, 0.002, 0.008, 0.02, 0.05)
"""Whoever signals many processes one by one takes a moment to come around."""
_NAME = 4096
KEPT_S = 1.0


class SignalWitness:
    """One sleeping process; it ends with us. ``pid`` is None where none could be started."""

    def __init__(self, command: Sequence[str]) -> None:
        self._name = " ".join(command)[:_NAME]
        self._before, self._until = 0, 0.0
        self.pid = self._start()

    def heard(self, number: int) -> bool | None:
        """Whether it got signal ``number`` too; None when there is no witness to ask."""
        bit = 1 << (number - 1)
        for pause_s in SETTLES_S:
            time.sleep(pause_s)
            pending = _pending_of(self.pid)
            if pending is None:
                return None
            known = self._before & bit and time.monotonic() < self._until
            self._before &= ~bit
            if pending & bit:
                self._renew()
                self._before &= ~bit
            if known or pending & bit:
                return True
        return False

    def _renew(self) -> None:
        """A new one, of which nothing is pending; what else the old one had heard until then is kept for a moment."""
        before, self.pid = self.pid, self._start()
        self._before |= _pending_of(before) or 0
        self._until = time.monotonic() + KEPT_S
        _end(before)

    def reaped(self, pid: int) -> None:
        """Process ``pid`` has ended; if it was the witness, there is a new one."""
        if pid == self.pid:
            self.pid = self._start()

    def end(self) -> None:
        """End the process."""
        _end(self.pid)
        self.pid = None

    def _start(self) -> int | None:
        program = shutil.which("sleep")
        if program is None:
            return None
        # A box of many programs (busybox) goes by the name it is called.
        name = self._name if Path(program).resolve().name == "sleep" else program
        parent = os.getpid()

        def sleep() -> int:
            if end_with_parent(parent):
                detach()
                os.execve(program, [name, "infinity"], {})  # noqa: S606 - nothing of it comes from elsewhere
            return 1

        with suppress(OSError):
            return fork_helper(sleep)
        return None


def _end(pid: int | None) -> None:
    if pid is None:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _pending_of(pid: int | None) -> int | None:
    """The signals that wait for a process, as bits; None when it is gone."""
    if pid is None:
        return None
    with suppress(ValueError):
        for line in text_of(PROC / str(pid) / "status").splitlines():
            if line.startswith("State:") and line.split()[1] in "ZX":
                return None
            if line.startswith("ShdPnd:"):
                return int(line.split()[1], 16)
    return None
