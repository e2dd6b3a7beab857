"""``unhang run`` with its output led in one of the ways people lead it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.ports import free_port
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Verdict

WAYS = ("file", "pipe", "terminal", "nohup", "tee", "srun")
LIMIT_S = 200


class Run(NamedTuple):
    """A run that is over: its folder, what was printed by it and by the job, and its exit code."""

    folder: Path
    printed: str
    code: int

    @property
    def told(self) -> dict[str, Any] | None:
        """``verdict.json``; None where there is none."""
        path = self.folder / "verdict.json"
        return json.loads(path.read_bytes()) if path.exists() else None

    @property
    def lines(self) -> list[str]:
        """The lines that unhang printed beside its verdicts."""
        return [line.rstrip() for line in self.printed.splitlines() if line.startswith("unhang: ")]

    def read_back(self) -> Verdict:
        """What the folder alone leads to."""
        return diagnose(build_facts(read_evidence([str(self.folder)])))


def run_program(
    program: Path,
    words: Iterable[str],
    folder: Path,
    *,
    way: str = "pipe",
    ranks: int = 2,
    options: tuple[str, ...] = (),
) -> Run:
    """Run ``program`` to its end, its output led ``way``."""
    command = [sys.executable, "-c", "from unhang.cli.main import main; main()", "run", "--dir", str(folder)]
    command += ["--lang", "en", *options, "--", sys.executable]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    if way == "srun":
        return Run(folder, *_as_tasks_of_a_step([*command, str(program), *words], environment, ranks))
    command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(program), *words]
    if way == "terminal":
        return Run(folder, *_in_a_terminal(command, environment))
    output = folder.with_suffix(".out")
    if way == "tee":
        # POSIX shells give the last command's exit code: ours goes the long way
        command = [
            "sh",
            "-c",
            '("$@"; echo $? > "$0.code") 2>&1 | tee "$0"; exit $(cat "$0.code")',
            str(output),
            *command,
        ]
    command = ["nohup", *command] if way == "nohup" else command
    with output.open("wb") as file:
        target = file if way in ("file", "nohup") else subprocess.PIPE
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=target,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=LIMIT_S,
            check=False,
        )
    printed = output.read_bytes() if target is file else done.stdout
    return Run(folder, printed.decode(errors="replace"), done.returncode)


def slurm(number: int, count: int, step: str = "0") -> dict[str, str]:
    """What Slurm tells a task of a step on one node, and what a batch script makes of it for torch."""
    return {
        "SLURM_JOB_ID": f"t{os.getpid()}",
        "SLURM_STEP_ID": step,
        "SLURM_LOCALID": str(number),
        "SLURM_PROCID": str(number),
        "SLURM_NODEID": "0",
        "SLURM_STEP_TASKS_PER_NODE": str(count),
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "WORLD_SIZE": str(count),
    }


def _as_tasks_of_a_step(command: list[str], environment: dict[str, str], count: int) -> tuple[str, int]:
    """As ``srun`` starts them: no launcher, a process a task, away from any terminal, each with pipes of its own."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    fronts = [
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment | slurm(number, count) | meeting,
            start_new_session=True,
        )
        for number in range(count)
    ]
    with ThreadPoolExecutor(count) as pool:
        printed = list(pool.map(lambda front: front.communicate(timeout=LIMIT_S)[0], fronts))
    return b"".join(printed).decode(errors="replace"), max(front.returncode for front in fronts)


def _in_a_terminal(command: list[str], environment: dict[str, str]) -> tuple[str, int]:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as front:
        os.close(theirs)
        printed = b""
        with suppress(OSError):  # the other side is closed once all have ended
            while piece := os.read(ours, 1 << 16):
                printed += piece
        code = front.wait(LIMIT_S)
    os.close(ours)
    return printed.decode(errors="replace").replace("\r\n", "\n"), code
