"""Real torchrun jobs as a user starts them: nothing of unhang in them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from unhang.watch.job import job_processes
from unhang.watch.process_state.proc_processes import ProcessTable
from unhang.watch.process_state.rank_processes import LiveRank, ranks_of
from unhang.watch.process_state.stack_collection import sample_kernel

CASES = Path(__file__).resolve().parents[3] / "packages" / "unhang-lab" / "src" / "unhang_lab" / "cases"
LIMIT_S = 100.0


@dataclass(slots=True)
class PlainJob:
    """A running job."""

    launcher: subprocess.Popen[bytes]
    logs: Path

    @property
    def ranks(self) -> tuple[LiveRank, ...]:
        """Its ranks now."""
        machine = ProcessTable.snapshot()
        below = {p.pid for p in machine.descendants(self.launcher.pid)}
        return tuple(rank for rank in ranks_of(machine) if rank.pid in below)

    def pid_of(self, rank: int) -> int:
        """Process of one rank."""
        return next(r.pid for r in self.ranks if r.rank == rank)

    def printed(self) -> list[str]:
        """What each rank printed."""
        return [path.read_text(errors="replace") for path in sorted(self.logs.glob("*/attempt_0/*/stdout.log"))]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Until ``condition`` holds; fails after a while or when the job ends."""
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert self.launcher.poll() is None, "the job ended by itself"
            assert time.monotonic() < deadline, f"the job did not get there: {self.printed()}"
            time.sleep(0.1)

    def wait_until_printed(self, words: str) -> None:
        """Until every rank has printed ``words``."""
        self.wait_for(lambda: bool(self.printed()) and all(words in text for text in self.printed()))

    def wait_until_waiting(self, ranks: int) -> None:
        """Until so many ranks have joined and stand still."""
        since: dict[int, tuple[int | None, float]] = {}

        def standing() -> bool:
            now = time.monotonic()
            count = 0
            for rank in self.ranks:
                ticks = sample_kernel(rank.pid).cpu_ticks
                if since.get(rank.pid, (None, 0.0))[0] != ticks:
                    since[rank.pid] = (ticks, now)
                if has_joined(rank.pid) and now - since[rank.pid][1] > 1.2:
                    count += 1
            return count >= ranks

        self.wait_for(standing)


def has_joined(pid: int) -> bool:
    """Whether its process group stands."""
    with contextlib.suppress(OSError):
        names = [(task / "comm").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
        return any("gloo" in name for name in names)
    return False


@contextlib.contextmanager
def plain_job(folder: Path, script: Path, *, ranks: int = 3) -> Iterator[PlainJob]:
    """Start ``script`` with torchrun; on the way out every process of it is ended."""
    logs = folder / "torchrun"
    mark = f"UNHANG_TEST_JOB={folder}"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += [f"--log-dir={logs}", "--redirects=3", str(script)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "UNHANG_TEST_JOB": str(folder)}
    with (folder / "launcher.log").open("wb") as log, job_processes.adopting_orphans():
        launcher = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=folder
        )
        job = PlainJob(launcher, logs)
        try:
            yield job
        finally:
            known = frozenset(job_processes.processes_with_mark(mark)) - {launcher.pid}
            job_processes.kill_marked(mark, known, limit_s=30.0)
            launcher.wait(timeout=30)
            job_processes.reap(known, limit_s=30.0)
