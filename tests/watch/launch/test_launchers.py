"""Every launcher: the same stalled job gets the same verdict, whoever starts its ranks."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.watch.signal_programs import RUN
from unhang.watch.job import job_processes
from unhang.watch.launch.job_environment import RECORDS_VARIABLE
from unhang_lab.lab_case import find_case

pytestmark = [pytest.mark.job, pytest.mark.timeout(300)]

LIMIT_S = 150.0
TRAIN = find_case("missing-rank").path
SPAWN = """
import os, runpy, sys
def main(rank, port):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    runpy.run_path(sys.argv[1], run_name="__main__")
if __name__ == "__main__":
    import socket
    import torch.multiprocessing as mp
    with socket.socket() as free: free.bind(("127.0.0.1", 0)); port = str(free.getsockname()[1])
    mp.spawn(main, args=(port,), nprocs=2)
"""
REEXEC = """
import os, subprocess, sys
from copy import deepcopy
command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--node_rank", "0", "--nproc_per_node", "2",
           "--master_addr", "127.0.0.1", "--master_port", os.environ["MASTER_PORT"], *sys.argv[1:]]
sys.exit(subprocess.run(command, env=deepcopy(os.environ), check=True).returncode)
"""
"""What llamafactory-cli does: it starts torchrun as a child, with a copy of its environment."""
MPI_RANK = (
    "RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE "
    f"exec {shlex.quote(sys.executable)} {shlex.quote(str(TRAIN))}"
)
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]


def program(name: str) -> str | None:
    """Beside this Python, in a folder the developer names, or on the search path."""
    more = os.environ.get("UNHANG_TEST_LAUNCHERS", "")
    return shutil.which(name, path=os.pathsep.join((str(Path(sys.executable).parent), more, os.environ["PATH"])))


def command_of(launcher: str, place: Path) -> list[str]:
    """The words a user would type; skips where the launcher is not installed."""
    train = str(TRAIN)
    torchrun = ["--standalone", "--nproc-per-node=2", train]
    words = {
        "torch.distributed.run": [sys.executable, "-m", "torch.distributed.run", *torchrun],
        "torchrun": ["torchrun", *torchrun],
        "accelerate": ["accelerate", "launch", "--multi_gpu", "--num_processes=2", "--num_machines=1",
                       "--mixed_precision=no", "--dynamo_backend=no", train],
        "deepspeed": ["deepspeed", "--num_accelerators=2", "--master_port", os.environ["MASTER_PORT"], train],
        "re-executed": [sys.executable, str(place / "start.py"), train],
        "spawned": [sys.executable, str(place / "start.py"), train],
        "mpirun": [*MPIRUN, "sh", "-c", MPI_RANK],
    }[launcher]  # fmt: skip
    (place / "start.py").write_text(SPAWN if launcher == "spawned" else REEXEC)
    found = program(words[0])
    if found is None:
        pytest.skip(f"{words[0]} is not installed")
    return [found, *words[1:]]


LAUNCHERS = ("torch.distributed.run", "torchrun", "accelerate", "deepspeed", "re-executed", "spawned", "mpirun")


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "TRAIN_BACKEND": "gloo",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "DS_ACCELERATOR": "cpu",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_stall_gets_the_same_verdict(launcher: str, tmp_path: Path) -> None:
    words = [*RUN, "--dir", str(tmp_path / "run"), "--", *command_of(launcher, tmp_path)]

    told = verdict_of([words], tmp_path)

    assert_missing_rank(told, tmp_path)


def test_each_rank_under_its_own_front(tmp_path: Path) -> None:
    """``mpirun -n 2 unhang run -- python train.py``: they share one watcher and one folder."""
    mpirun = program("mpirun")
    if mpirun is None:
        pytest.skip("mpirun is not installed")
    words = [mpirun, *MPIRUN[1:], *RUN, "--dir", str(tmp_path / "run"), "--", "sh", "-c", MPI_RANK]

    told = verdict_of([words], tmp_path)

    assert_missing_rank(told, tmp_path)


def test_the_tasks_of_a_slurm_step(tmp_path: Path) -> None:
    """``srun --ntasks-per-node=2 unhang run -- python train.py``, as its variables tell it."""
    commands = []
    for rank in (0, 1):
        told = {"SLURM_JOB_ID": f"l{os.getpid()}", "SLURM_STEP_ID": "0", "SLURM_STEP_TASKS_PER_NODE": "2"}
        told |= {"SLURM_LOCALID": str(rank), "SLURM_PROCID": str(rank), "RANK": str(rank), "WORLD_SIZE": "2"}
        told |= {"LOCAL_RANK": str(rank)}
        given = [f"{name}={value}" for name, value in told.items()]
        commands.append(["env", *given, *RUN, "--dir", str(tmp_path / "run"), "--", sys.executable, str(TRAIN)])

    found = verdict_of(commands, tmp_path)

    assert_missing_rank(found, tmp_path)
    printed = (tmp_path / "printed").read_text()
    assert printed.count("re-read it: unhang diagnose") == 1, printed


def verdict_of(commands: list[list[str]], place: Path) -> dict[str, Any] | None:
    """Start the commands, wait for a loud verdict, and leave nothing running."""
    folder = place / "run"
    with (place / "printed").open("wb") as printed, job_processes.adopting_orphans():
        started = [
            subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, start_new_session=True)
            for words in commands
        ]
        told, deadline = None, time.monotonic() + LIMIT_S
        try:
            while time.monotonic() < deadline and all(job.poll() is None for job in started):
                with suppress(OSError, ValueError):
                    told = json.loads((folder / "verdict.json").read_bytes())
                    if told["status"] == "hang" and "re-read it: unhang diagnose" in (place / "printed").read_text(
                        errors="replace"
                    ):
                        break
                time.sleep(0.1)
        finally:
            with suppress(OSError, ValueError):
                records = json.loads((folder / "run.json").read_bytes())["records"]
                assert job_processes.kill_marked(f"{RECORDS_VARIABLE}={records}", frozenset()) == ()
            for job in started:
                with suppress(ProcessLookupError):
                    os.killpg(job.pid, signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    job.wait(20)
                job.kill()
                job.wait()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    return told


def assert_missing_rank(told: dict[str, Any] | None, place: Path) -> None:
    expected, printed = find_case("missing-rank").expected, (place / "printed").read_text(errors="replace")
    assert told is not None, printed
    assert told["status"] == "hang", printed
    assert told["findings"][0]["cause"] == (expected.cause.value if expected.cause else None), printed
    assert told["findings"][0]["ranks"] == [1], printed
