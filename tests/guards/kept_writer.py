"""A writer that keeps what it is told, and programs that log through one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from typing import Any

LIMIT_S = 60


class Kept:
    """A writer that keeps what it is told; ``held`` makes it wait, as storage that does not answer."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.held = threading.Event()
        self.held.set()
        self.flushed = self.closed = 0

    def add_scalar(self, tag: str, value: object, step: int | None = None, walltime: float | None = None) -> None:
        self.held.wait(LIMIT_S)
        self.calls.append((tag, value, step, walltime))

    def log(self, values: dict[str, object], step: int | None = None) -> None:
        self.held.wait(LIMIT_S)
        self.calls.append((values, step))

    def flush(self) -> None:
        self.flushed += 1

    def close(self) -> None:
        self.closed += 1

    def get_logdir(self) -> str:
        return "/logs"


def values_of(writer: Kept) -> list[object]:
    return [call[1] for call in writer.calls]


def run_python(program: str, *words: str, ends: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == ends, done.stderr
    return done
