"""How ranks ended, read from what torchrun prints when one fails."""

from __future__ import annotations

import re
from dataclasses import dataclass

# As torch 2.13 says it first: "failed (exitcode: -9) local_rank: 1 (pid: 8127) of binary: /usr/bin/python3".
_FIRST = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: \d+ \(pid: (?P<pid>\d+)\)")
# In the table at the end: "  exitcode  : -15 (pid: 8108)  (SIGTERM)".
_TABLE = re.compile(r"^\s+exitcode\s+: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)", re.MULTILINE)
# To survivors: "Sending process 8108 closing signal SIGTERM".
_CLOSED = re.compile(r"Sending process (?P<pid>\d+) closing signal SIG(?P<name>[A-Z]+)")
_SIGTERM = -15


@dataclass(frozen=True, slots=True)
class ProcessEnding:
    """Exit code of one process (a signal is negative), and whether torchrun itself ended it."""

    exit_code: int
    by_launcher: bool


def read_endings(launcher_log: str) -> dict[int, ProcessEnding]:
    """Endings by process id."""
    closed = {int(match["pid"]) for match in _CLOSED.finditer(launcher_log)}
    codes = dict.fromkeys(closed, _SIGTERM)
    for pattern in (_TABLE, _FIRST):
        codes |= {int(match["pid"]): int(match["code"]) for match in pattern.finditer(launcher_log)}
    return {pid: ProcessEnding(code, pid in closed) for pid, code in codes.items()}
