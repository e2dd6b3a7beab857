"""Processes of a measurement: started, waited for with a limit, ended; and the processor time they used."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
READY_S = 180.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that ended: seconds by the clock and of the processor (with its children), MiB at most, its output."""

    clock_s: float
    processor_s: float
    mib: float
    code: int
    out: str
    err: str


def run(
    words: Sequence[str],
    scratch: Path,
    environment: Mapping[str, str],
    *,
    limit_s: float = 900.0,
    meanwhile: Callable[[float], None] | None = None,
) -> Ended:
    """Run a command to its end. ``meanwhile`` hears (seconds since it began) every 50 ms: what breaks things."""
    begun = time.monotonic()
    with (scratch / "out").open("w+") as out, (scratch / "err").open("w+") as err:
        process = subprocess.Popen(words, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=dict(environment))
        while True:
            done, status, used = os.wait4(process.pid, os.WNOHANG)
            took = time.monotonic() - begun
            if done:
                break
            if took > limit_s:
                process.kill()
                _, status, used = os.wait4(process.pid, 0)
                break
            if meanwhile is not None:
                meanwhile(took)
            time.sleep(0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        spent = used.ru_utime + used.ru_stime
        return Ended(took, spent, used.ru_maxrss / 1024, process.returncode, out.read(), err.read())


def processor_s(pids: Sequence[int]) -> float:
    """Processor seconds of these processes so far, with children they waited for; of those gone nothing."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def most_mib(pids: Sequence[int]) -> float:
    """The most memory any one of these processes held, MiB."""
    most = 0.0
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    most = max(most, int(line.split()[1]) / 1024)
    return most


@contextmanager
def started(words: Sequence[str], log: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs beside; ended at the end, also when it does not want to."""
    with log.open("ab") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=dict(environment))
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def until(ready: Callable[[], bool], what: str, limit_s: float = READY_S) -> None:
    """Wait until ``ready``, or fail saying ``what`` did not come."""
    deadline = time.monotonic() + limit_s
    while not ready():
        if time.monotonic() > deadline:
            sys.exit(f"{what} was not ready within {limit_s:.0f} s")
        time.sleep(0.05)


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
