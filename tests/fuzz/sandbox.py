"""One input after the other in a process of limited time and memory, which may do nothing but read and compute."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unhang.evidence.flight_recorder.workers import WORKER

MAX_S = 20
"""Processor time of one input."""
MAX_BYTES = 1 << 30
_FORBIDDEN = re.compile(
    r"subprocess\.Popen|os\.(system|exec|posix_spawn|spawn|fork|forkpty|kill|remove|rename|chmod|chown|startfile)"
    r"|socket\.(connect|bind|sendto|getaddrinfo)|ctypes\.(dlopen|call_function)|pty\.spawn|webbrowser\.open|shutil\..*"
)
_did: list[str] = []


class _Watch:
    """One a process: whether what is done now is an input's doing, and where it may write."""

    armed = False
    own_folder = ""


class TooLong(BaseException):
    """Beyond ``Exception``: no boundary of unhang may take it for a failure of one part."""


def _is_our_reader(event: str, given: tuple[Any, ...]) -> bool:
    """Whether this starts the process that reads dumps for us, or ends a process that we started."""
    if event == "subprocess.Popen":
        return bool(given[1][2:3] == [WORKER])
    if event != "os.kill":
        return False
    told = Path(f"/proc/{given[0]}/stat").read_text(encoding="utf-8", errors="replace")
    return int(told.rpartition(")")[2].split()[1]) == os.getpid()


def _heard(event: str, given: tuple[Any, ...]) -> None:
    if not _Watch.armed:
        return
    if event == "open" and isinstance(given[0], str | bytes):
        path, mode = str(given[0]), str(given[1])
        writes = bool(set(mode) & set("wax+")) or (isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR))
        if (
            writes
            and not path.startswith((_Watch.own_folder, "/dev/null"))
            and not (given[2] & getattr(os, "O_TMPFILE", 0))
        ):
            _did.append(f"wrote {path[:100]}")
    elif _FORBIDDEN.match(event):
        if event in ("os.remove", "shutil.rmtree") and (
            str(given[0]).startswith(_Watch.own_folder) or given[-1] not in (-1, None)
        ):
            return  # our own temporary files
        if _is_our_reader(event, given):
            return
        _did.append(f"{event} {given!r}"[:200])


def close_in(own_folder: str) -> None:
    """From here on this process is limited; files are written below ``own_folder`` only."""
    _Watch.own_folder = tempfile.tempdir = own_folder
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_BYTES, used + MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(_heard)
    signal.signal(signal.SIGPROF, _too_long)


def _too_long(*_: object) -> None:
    raise TooLong


@contextmanager
def one_input(*, may_start: bool = False) -> Iterator[list[str]]:
    """What is done inside is timed and watched; the list holds what it must not have done."""
    _did.clear()
    signal.setitimer(signal.ITIMER_PROF, MAX_S)
    _Watch.armed = not may_start
    try:
        yield _did
    finally:
        _Watch.armed = False
        signal.setitimer(signal.ITIMER_PROF, 0)
