"""Programs that say which signals reach them, and the shell and terminal they run under."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from tests.waiting import wait_for

RUN = [sys.executable, "-c", "from unhang.cli.main import main; main()", "run"]
LIMIT_S = 60.0

RECORDER = """
import os, signal, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
stops = {signal.SIGTSTP} if "stop" in sys.argv else set()
all_ = set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD} - stops
signal.pthread_sigmask(signal.SIG_BLOCK, all_)
os.write(file, b"ready\\n")
while True:
    told = signal.sigtimedwait(all_, 60)
    if told is None: sys.exit(8)
    if told.si_signo == signal.SIGRTMIN + 5: sys.exit(7)
    os.write(file, f"{signal.Signals(told.si_signo).name}\\n".encode())
"""
END = signal.SIGRTMIN + 5

SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN if "keep" == sys.argv[1] else signal.SIG_DFL)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgid(0))
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.execvp(sys.argv[2], sys.argv[2:])
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status): break
    os.tcsetpgrp(0, os.getpgid(0))
    print("stopped by", signal.Signals(os.WSTOPSIG(status)).name, flush=True)
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)
print("ended", os.waitstatus_to_exitcode(status), flush=True)
"""


def ours(folder: Path | None, *options: str) -> list[str]:
    """What stands before a command: nothing, or ``unhang run``."""
    return [] if folder is None else [*RUN, "--dir", str(folder), *options, "--"]


class Recorded:
    """A command that writes down the signals it gets, in a group of its own, perhaps under ``unhang run``."""

    def __init__(self, notes: Path, run_folder: Path | None, **how: object) -> None:
        self.notes = notes
        command = [*ours(run_folder), sys.executable, "-c", RECORDER, str(notes)]
        self.front = subprocess.Popen(command, start_new_session=True, **how)  # type: ignore[call-overload]
        wait_for(lambda: self.heard()[:1] == ["ready"])

    def heard(self) -> list[str]:
        return self.notes.read_text().split() if self.notes.exists() else []

    def settle(self) -> list[str]:
        """What it heard when nothing more comes."""
        before: list[str] = []
        while len(now := self.heard()) > len(before) or not before:
            before = now
            time.sleep(0.2)
        return before

    def end(self) -> int:
        """Tell it to end; its exit code, as its parent sees it."""
        self.front.send_signal(END)
        return int(self.front.wait(LIMIT_S))


class Terminal:
    """A terminal with a small shell in it that runs one command in the foreground."""

    def __init__(self, command: list[str], *, shell: str = "") -> None:
        self.said = ""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                os.execv(sys.executable, [sys.executable, "-c", SHELL, shell, *command])
            finally:
                os._exit(99)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def resize(self, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))

    def read_until(self, text: str) -> str:
        deadline = time.monotonic() + LIMIT_S
        while text not in self.said and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.said += os.read(self.master, 4096).decode(errors="replace")
                except OSError:
                    break
        assert text in self.said, self.said
        return self.said

    def hang_up(self) -> None:
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        if self.master >= 0:
            os.close(self.master)
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            time.sleep(0.02)
