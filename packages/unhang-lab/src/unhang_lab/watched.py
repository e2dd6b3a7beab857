"""Run a case of the catalogue under ``unhang run``, as a user would, and say what came of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from unhang.errors import MissingExtra, UnhangError
from unhang.sentences import Text
from unhang.view.regular_files import read_json_as
from unhang.watch import private_files
from unhang.watch.job import job_processes
from unhang.watch.launch.job_environment import RECORDS_VARIABLE
from unhang.wire.record import read_records
from unhang.wire.record_views import RecordView
from unhang_lab.lab_case import Injection, LabCase

POLL_S = 0.05
Tell = Callable[[Text], None]
"""Is told what happens, one short sentence at a time."""
FREEZE_AFTER_MOVE_S = 0.9
SLOW_AFTER_S = 3.0
"""Work of one rank is borne so long: nobody wants to wait for a case of the lab."""
_FREEZER = """\
import runpy
import threading
import time
from pathlib import Path

from unhang_lab.frozen_transport import freeze_transport, wait_until


def freeze(order=Path(__file__).with_name("order")):
    while not order.exists():
        time.sleep(0.02)
    wait_until(float(order.read_text()))
    freeze_transport()


threading.Thread(target=freeze, name="unhang-fault", daemon=True).start()
runpy.run_path(str(Path(__file__).with_name("train.py")), run_name="__main__")
"""


@dataclass(slots=True)
class WatchedCase:
    """A case that runs under ``unhang run``. ``folder`` is the run folder, ``terminal`` what was printed."""

    case: LabCase
    folder: Path
    scripts: Path
    front: subprocess.Popen[bytes]
    terminal: Path
    ranks: int
    moved_s: float = 0.0
    """When any rank last moved (seconds since the epoch), as the ranks' own records say."""
    injected_s: float | None = None
    views: Mapping[Path, RecordView] = field(default_factory=dict)

    @property
    def plan(self) -> dict[str, Any]:
        """``run.json``; empty before it is there."""
        return read_json_as(self.folder / "run.json", dict) or {}

    def verdict(self) -> dict[str, Any] | None:
        """``verdict.json`` as it is now; None before there is one."""
        return read_json_as(self.folder / "verdict.json", dict)

    def sample(self) -> None:
        """Read the ranks' records: when they last moved. Injects the case's fault at its moment."""
        records = self.plan.get("records")
        if not records:
            return
        views = read_records(Path(records))
        self.views = views or self.views
        now_s, now_ns = time.time(), time.monotonic_ns()
        moves = [group.changed_ns for view in views.values() for group in view.groups if group.changed_ns > 0]
        moves += [view.identity.armed_ns for view in views.values()]  # it came to init_process_group
        if moves:
            self.moved_s = now_s - (now_ns - max(moves)) / 1e9
        injection = self.case.injection
        if injection is not None and self.injected_s is None and self._far_enough(injection):
            self.injected_s = self._inject(injection)

    def _far_enough(self, injection: Injection) -> bool:
        reached = [max((g.enqueued for g in view.groups), default=0) for view in self.views.values()]
        return len(reached) == self.ranks and min(reached) >= injection.after

    def _inject(self, injection: Injection) -> float:
        if injection.kind == "freeze-transport":
            at_s = self.moved_s + FREEZE_AFTER_MOVE_S
            private_files.write_atomically(self.scripts / "order", f"{at_s:.3f}".encode())
            return at_s
        for view in self.views.values():
            if injection.rank is None or view.identity.rank == injection.rank:
                os.kill(view.identity.pid, getattr(signal, f"SIG{injection.kind}"))
        return time.time()

    def wait_for(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Until ``condition``, or the end of the command, or ``limit_s``; whether the condition came about."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            self.sample()
            if condition():
                return True
            if self.front.poll() is not None:
                return condition()
            time.sleep(POLL_S)
        return False


def require_torch() -> None:
    """Say clearly what to install when there is no PyTorch."""
    try:
        installed = find_spec("torch") is not None
    except ValueError:  # somebody put None in its place
        installed = False
    if not installed:
        raise MissingExtra(
            "The lab runs real training jobs and needs PyTorch, which is not installed here.",
            next_step="pip install torch --index-url https://download.pytorch.org/whl/cpu",
        )


@contextmanager
def watch_case(
    case: LabCase,
    folder: Path,
    *,
    ranks: int | None = None,
    options: tuple[str, ...] = (),
    extra: Mapping[str, str] | None = None,
    python: str = sys.executable,
    launch: tuple[str, ...] = (),
) -> Iterator[WatchedCase]:
    """Start ``case`` under ``unhang run --dir FOLDER`` and end every process of it on the way out.

    Args:
        case: what to run; as ``train.py`` in the working directory of the command.
        folder: the run folder to be.
        ranks: number of ranks; None takes the case's own.
        options: of ``unhang run``.
        extra: environment variables on top of this process's own.
        python: runs unhang and, unless ``launch`` says otherwise, the job.
        launch: the command to run instead of torchrun.

    Raises:
        UnhangError: a process of the job was left over.
        MissingExtra: there is no PyTorch.
    """
    require_torch()
    with tempfile.TemporaryDirectory(prefix="job-", ignore_cleanup_errors=True) as name:
        scripts, world = Path(name).resolve(), ranks or case.ranks
        shutil.copy(case.path, scripts / "train.py")
        script = scripts / "train.py"
        if case.injection is not None and case.injection.kind == "freeze-transport":
            script = scripts / "start.py"
            script.write_text(_FREEZER)
        terminal = scripts / "terminal.txt"
        command = [python, "-c", "from unhang.cli.main import main; main()", "run", "--dir", str(folder)]
        command += ["--slow-after", str(SLOW_AFTER_S)]
        torchrun = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
        torchrun += [f"--log-dir={scripts / 'logs'}", "--redirects=3", str(script)]
        command += [*options, "--", *(launch or torchrun)]
        with terminal.open("wb") as printed, job_processes.adopting_orphans():
            front = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                env=_environment(extra or {}),
                cwd=scripts,
                start_new_session=True,
            )
            job = WatchedCase(case, folder, scripts, front, terminal, world)
            try:
                yield job
            finally:
                _end(job)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"} | dict(os.environ)
    return environment | {"TRAIN_BACKEND": "gloo", "PYTHONUNBUFFERED": "1"} | dict(extra)


def _end(job: WatchedCase) -> None:
    records = job.plan.get("records")
    if job.front.poll() is None:
        job.front.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            job.front.wait(1.0)
    if records:
        left = job_processes.kill_marked(f"{RECORDS_VARIABLE}={records}", frozenset(), limit_s=30.0)
        if left:
            raise UnhangError(f"processes of the job are left over: {left}")
    with suppress(subprocess.TimeoutExpired):
        job.front.wait(20.0)
    if job.front.poll() is None:
        job.front.kill()
        job.front.wait(5.0)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
