"""What the tests of engines share: verdicts of many folders in one process, clusters of our own, and a killer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import wait_for

CASES = Path(__file__).parents[2] / "cases"
FOLDERS = [
    CASES / name / "input"
    for name in (
        "uneven-data/hit_lab_split_without_seed",
        "rank-frozen/hit_lab_stopped",
        "gpu-oom/hit_then_network_errors",
    )
]
_VERDICTS = """
import contextlib, io, json, sys
from unhang.cli.diagnosing import DiagnoseRequest
from unhang.evidence import inputs
if __name__ == "__main__":
    inputs.WORTH_SPREADING = 0
    engine, address, *folders = sys.argv[1:]
    told = []
    for folder in folders:
        with contextlib.redirect_stdout(io.StringIO()) as text:
            DiagnoseRequest([folder], form="json", engine=engine, engine_address=address).answer()
        told.append(text.getvalue())
    print(json.dumps(told))
"""


def verdicts(engine: str, address: str, folders: Sequence[Path], scratch: Path, limit_s: float = 100.0) -> list[str]:
    """``unhang diagnose FOLDER --format json --engine ENGINE`` for each of ``folders``, in one process.

    A process of its own: engines start threads, and processes that begin with its main module.
    """
    program = scratch / "verdicts.py"
    program.write_text(_VERDICTS)
    ran = subprocess.run(
        [sys.executable, str(program), engine, address, *map(str, folders)],
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told: list[str] = json.loads(ran.stdout.splitlines()[-1])
    return told


@contextmanager
def dask_cluster(scratch: Path, workers: int = 2, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """A scheduler and its workers; gives the file in which the scheduler says where it is."""
    told = scratch / "scheduler.json"
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(told)]
    worker = ["worker", "--scheduler-file", str(told), "--nthreads", "1", "--no-dashboard"]
    worker += ["--local-directory", str(scratch), "--death-timeout", "60"]
    started = [_dask(scheduler, scratch, {})]
    try:
        wait_for(lambda: told.exists() and told.stat().st_size > 0)
        started += [_dask(worker, scratch, environment or {}) for _ in range(workers)]
        yield str(told)
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait(5)


def _dask(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    program = f"from distributed.cli.dask_{words[0]} import main; main()"
    with (folder / "dask.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", f"if __name__ == '__main__':\n    {program}", *words[1:]],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
        )


def descendants(process: int) -> set[int]:
    """Numbers of the processes that ``process`` started, and of theirs."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                told = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                parents[int(entry.name)] = int(told.rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {one for one, parent in parents.items() if parent in {process, *found}} - found:
        found |= more
    return found


def has_open(process: int, path: Path) -> bool:
    """Whether ``process`` has the file ``path`` open."""
    try:
        opened = list(Path(f"/proc/{process}/fd").iterdir())
    except OSError:
        return False
    for one in opened:
        with suppress(OSError):
            if one.readlink() == path:
                return True
    return False


class Killer(threading.Thread):
    """Kills whoever of the processes below ``root`` opens ``path``, as the kernel does where memory runs out."""

    def __init__(self, root: int, path: Path) -> None:
        super().__init__(daemon=True)
        self._root = root
        self._path = path
        self._over = threading.Event()
        self.killed: set[int] = set()

    def run(self) -> None:
        """Look every few milliseconds."""
        while not self._over.wait(0.003):
            for process in descendants(self._root) - self.killed:
                if has_open(process, self._path):
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                    self.killed.add(process)

    def stop(self) -> None:
        """No more."""
        self._over.set()
        self.join(10)
