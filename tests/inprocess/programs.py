"""Run a program with and without us, and look at what differs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import unhang
from tests.ports import free_port
from unhang.wire.process_registration import ProcessRegistration, read_internal_errors, read_registrations
from unhang.wire.record import read_records
from unhang.wire.record_views import RecordView

STARTUP = Path(unhang.__file__).parent / "inprocess" / "startup"
LIMIT_S = 80
RANK_0 = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}


@dataclass(frozen=True, slots=True)
class Folders:
    """The records folder and the run folder of one test."""

    records: Path
    run: Path

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        """``base`` as the front process hands it to a command."""
        before = base.get("PYTHONPATH")
        path = f"{STARTUP}:{before}" if before else str(STARTUP)
        return {**base, "PYTHONPATH": path, "UNHANG_RUN": str(self.records), "UNHANG_RUN_DIR": str(self.run)}

    def views(self) -> list[RecordView]:
        return list(read_records(self.records).values())

    def view(self) -> RecordView:
        views = self.views()
        assert len(views) == 1, (views, self.troubles())
        return views[0]

    def registrations(self) -> list[ProcessRegistration]:
        return read_registrations(self.records)

    def troubles(self) -> dict[int, list[str]]:
        return read_internal_errors(self.records)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def same(self) -> tuple[int, str, str]:
        """What must not depend on us: everything but numbers that change from run to run."""
        return self.code, _steady(self.out), _steady(self.err)


def _steady(text: str) -> str:
    # Our thread is a thread: whoever prints all threads prints it too (docs/what-changes.md).
    text = re.sub(r'(?m)^Thread 0x\w+.*\n(  File ".*/unhang/inprocess/.*\n)+\n?', "", text)
    return re.sub(r"0x[0-9a-f]+|\d+", "N", text)


def base_environment(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "TORCH_CPP_LOG_LEVEL": "ERROR", **more}


def run_python(words: Sequence[str], environment: dict[str, str], *, python: str = sys.executable) -> Ran:
    ran = subprocess.run(
        [python, *words], env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


ENDS_BADLY = "terminate called without an active exception"


def with_and_without(words: Sequence[str], folders: Folders, *, python: str = sys.executable, **more: str) -> list[Ran]:
    """The program without us and with us."""
    base = base_environment(**more)
    without = run_python(words, base, python=python)
    if ENDS_BADLY in without.err:  # torch's own threads, on a busy machine: seen without us, so nothing to compare with
        without = run_python(words, base, python=python)
    return [without, run_python(words, folders.environment(base), python=python)]


def one_rank() -> dict[str, str]:
    """The environment of a job of one rank."""
    return {**RANK_0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
