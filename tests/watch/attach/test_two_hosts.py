"""Two 'hosts' on one machine, each with its own name and process numbers: each writes its folder into a shared one, as
`srun --ntasks-per-node=1 unhang attach --dir SHARED` does, and one `unhang diagnose` reads both as one job."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import unhang
from tests.ports import free_port
from tests.watch.attach.plain_jobs import CASES

APART = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
LIMIT_S = 60.0


def can_set_apart() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return False
    return subprocess.run([*APART, "hostname", "node"], capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.job,
    pytest.mark.live,
    pytest.mark.timeout(150),
    pytest.mark.skipif(not can_set_apart(), reason="needs root and namespaces"),
]


@contextlib.contextmanager
def host(folder: Path, name: str, number: int, port: int) -> Iterator[int]:
    """``missing_rank.py`` on one of two hosts; gives a process in its namespaces."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={number}"]
    torchrun += ["--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}"]
    torchrun += [f"--log-dir={folder / name}", "--redirects=3", str(folder / "train.py")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with (folder / f"{name}.log").open("wb") as log:
        inside = ["sh", "-c", 'hostname "$0" && exec "$@"', name, *torchrun]
        front = subprocess.Popen([*APART, *inside], stdout=log, stderr=log, env=environment, cwd=folder)
    try:
        yield first_child(front.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(first_child(front.pid), signal.SIGKILL)  # the first of a namespace takes all others with it
        front.kill()
        front.wait(timeout=60)


def first_child(pid: int) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.02)
    raise ProcessLookupError(pid)


def wait_for_logs(folder: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        texts = [path.read_text() for path in folder.glob("node-*/*/attempt_0/*/stdout.log")]
        if len(texts) == 4 and all("step 11" in text for text in texts):
            return
        assert time.monotonic() < deadline, [path.read_text()[-500:] for path in folder.glob("node-*.log")]
        time.sleep(0.2)


def test_two_hosts_write_into_one_folder_and_are_one_job(tmp_path: Path) -> None:
    shutil.copy(CASES / "missing_rank.py", tmp_path / "train.py")
    port, shared = free_port(), tmp_path / "shared"
    with host(tmp_path, "node-a", 0, port) as a, host(tmp_path, "node-b", 1, port) as b:
        wait_for_logs(tmp_path)
        time.sleep(2.0)
        alone = []
        for pid in (a, b):
            enter = ["nsenter", f"--target={pid}", "--uts", "--pid", "--mount"]
            start = [sys.executable, "-c", "from unhang.cli.main import main; main()", "attach", "--format", "json"]
            done = subprocess.run(
                [*enter, *start, "--dir", str(shared)], capture_output=True, timeout=LIMIT_S, check=False
            )
            assert done.returncode == 1, done.stderr
            alone.append(json.loads(done.stdout))

    together = json.loads(unhang("diagnose", shared, "--format", "json").stdout)
    first = together["findings"][0]
    assert sorted(path.name for path in shared.iterdir()) == ["node-a", "node-b"]
    assert (alone[0]["ranks_missing"], alone[1]["ranks_missing"]) == ([2, 3], [0, 1])
    assert all(verdict["findings"][0]["certainty"] != "certain" for verdict in alone)
    assert (together["ranks_seen"], together["ranks_missing"]) == ([0, 1, 2, 3], [])
    assert (first["cause"], first["certainty"]) == ("rank-conditional-collective", "certain")
    assert (first["ranks"], first["nodes"]) == ([3], ["node-b"])
