"""One real torchrun job: how it is started, watched and ended."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unhang.errors import MissingExtra
from unhang.watch.job import job_processes
from unhang.watch.process_state.proc_processes import lives

MARK_NAME = "UNHANG_LAB_MEETING"


@dataclass(frozen=True, slots=True)
class LabRank:
    """A rank's process as it introduced itself."""

    rank: int
    local_rank: int
    pid: int
    host: str


@dataclass(slots=True)
class TorchrunJob:
    """A started job. ``meeting`` is the private folder in which its ranks and the recorder exchange files."""

    launcher: subprocess.Popen[bytes]
    meeting: Path
    ranks: int
    ended_s: dict[int, float] = field(default_factory=dict)
    """When each rank's process was first seen gone, seconds since the epoch."""
    seen: set[int] = field(default_factory=set)

    @property
    def mark(self) -> str:
        """The environment entry every process of this job inherits."""
        return f"{MARK_NAME}={self.meeting}"

    def members(self) -> dict[int, LabRank]:
        """The ranks that introduced themselves so far."""
        found = {}
        for path in (self.meeting / "ranks").iterdir():
            if path.name.isdigit():
                me = json.loads(path.read_bytes())
                found[me["rank"]] = LabRank(me["rank"], me["local_rank"], me["pid"], me["host"])
        return found

    def positions(self) -> dict[int, bytes]:
        """Where each rank stands, as its last beat says; equal bytes mean no movement."""
        return {int(p.name): p.read_bytes() for p in (self.meeting / "beat").iterdir() if p.name.isdigit()}

    def last_move_s(self) -> float:
        """When any rank last moved, seconds since the epoch; the start of the job when none did."""
        times = [p.stat().st_mtime for p in (self.meeting / "beat").iterdir() if p.name.isdigit()]
        return max(times, default=self.meeting.stat().st_ctime)

    def note_ends(self) -> None:
        """Remember which ranks' processes are gone, and which processes belong to the job."""
        self.seen.update(job_processes.processes_with_mark(self.mark))
        for rank, member in self.members().items():
            if not lives(member.pid) and rank not in self.ended_s:
                self.ended_s[rank] = time.time()

    def launcher_log(self) -> bytes:
        """What torchrun itself wrote so far."""
        return (self.meeting / "launcher.log").read_bytes()

    def rank_logs(self) -> Iterator[tuple[str, Path]]:
        """(``attempt_A/LOCAL_RANK/stdout.log``, file) for every log torchrun keeps."""
        for path in sorted((self.meeting / "torchrun").glob("*/attempt_*/*/std*.log")):
            yield "/".join(path.parts[-3:]), path


def max_enqueued(position: bytes) -> int:
    """The largest number of collectives any group of this rank has enqueued; 0 before the first."""
    return max((number for _, number in enqueued_by_group(position)), default=0)


def enqueued_by_group(position: bytes) -> tuple[tuple[str, int], ...]:
    """Enqueued collectives of every group of this rank. Gloo's completed counts may change while nothing moves."""
    try:
        status = json.loads(position).get("pg_status", {})
    except ValueError:
        return ()
    return tuple(sorted((group, int(numbers["last_enqueued_collective"])) for group, numbers in status.items()))


def require_torch() -> None:
    """Say clearly what to install when there is no PyTorch."""
    try:
        installed = importlib.util.find_spec("torch") is not None
    except ValueError:  # somebody put None in its place
        installed = False
    if not installed:
        raise MissingExtra(
            "The lab runs real training jobs and needs PyTorch, which is not installed here.",
            next_step="pip install torch --index-url https://download.pytorch.org/whl/cpu",
        )


@contextlib.contextmanager
def run_job(
    script: Path, arguments: tuple[str, ...], *, ranks: int, backend: str, extra: Mapping[str, str]
) -> Iterator[TorchrunJob]:
    """Start ``script`` under torchrun and end every process of it on the way out, whatever happened.

    Args:
        script: the training script; its folder is where it finds its own modules.
        arguments: the script's own arguments.
        ranks: processes on this machine.
        backend: ``gloo`` or ``nccl``, given to the script as ``TRAIN_BACKEND``.
        extra: environment variables on top of this process's own.
    """
    require_torch()
    with tempfile.TemporaryDirectory(prefix="unhang-lab-", ignore_cleanup_errors=True) as folder:
        meeting = Path(folder)
        for name in ("ranks", "beat", "ask", "dumps", "stacks", "torchrun", "scratch"):
            (meeting / name).mkdir(mode=0o700)
        with job_processes.adopting_orphans():
            job = _start(script, arguments, ranks, _environment(meeting, backend, extra), meeting)
            try:
                yield job
            finally:
                job.seen.update(job_processes.processes_with_mark(job.mark))
                known = frozenset(job.seen - {job.launcher.pid})
                job_processes.kill_marked(job.mark, known, limit_s=30.0)
                job.launcher.wait(timeout=30)
                job_processes.reap(known, limit_s=5.0)


def _start(
    script: Path, arguments: tuple[str, ...], ranks: int, environment: dict[str, str], meeting: Path
) -> TorchrunJob:
    worker = Path(__file__).with_name("worker.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += [f"--log-dir={meeting / 'torchrun'}", "--redirects=3"]
    # torchrun ends the survivors when it sees a rank fail; a second lets them say what they saw.
    command += ["--monitor-interval=1.5", str(worker), str(script), *arguments]
    descriptor = os.open(meeting / "launcher.log", os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "wb") as log:
        launcher = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=meeting / "scratch",
            start_new_session=True,
        )
    return TorchrunJob(launcher, meeting, ranks)


def _environment(meeting: Path, backend: str, extra: Mapping[str, str]) -> dict[str, str]:
    environment = dict(os.environ)
    environment.setdefault("OMP_NUM_THREADS", "1")
    if backend == "gloo":
        # The host name may resolve to an address no interface has (containers, laptops off the network).
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    environment |= {
        MARK_NAME: str(meeting),
        "UNHANG_LAB_BACKEND": backend,
        "TRAIN_BACKEND": backend,
        "PYTHONUNBUFFERED": "1",
        _ring_variable(): "2000",
    }
    return environment | dict(extra)


def _ring_variable() -> str:
    """The variable that turns the flight recorder on (it is off by default up to torch 2.10)."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        version = importlib.metadata.version("torch")
        if tuple(int(part) for part in version.split(".")[:2]) < (2, 8):
            return "TORCH_NCCL_TRACE_BUFFER_SIZE"
    return "TORCH_FR_BUFFER_SIZE"
