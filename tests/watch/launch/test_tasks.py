"""Several tasks on one machine share one watcher and one run folder; each ends as its own command did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.waiting import wait_for
from tests.watch.output_ways import slurm
from tests.watch.signal_programs import RUN
from unhang.watch.job.sibling_tasks import sibling_tasks, tasks_per_node
from unhang.watch.run_folder import RunFolder
from unhang.wire.control import Control


def test_what_slurm_says_of_the_tasks_of_a_node() -> None:
    assert tasks_per_node("4(x2),3") == [4, 4, 3]
    assert tasks_per_node("8") == [8]
    assert tasks_per_node("") == tasks_per_node("4(x") == tasks_per_node("-1") == []


@pytest.mark.parametrize(
    ("changed", "count"),
    [
        ({}, 4),
        ({"SLURM_NODEID": "2"}, 3),
        ({"SLURM_STEP_TASKS_PER_NODE": "1"}, None),  # `srun --pty bash`, torchrun below it
        ({"SLURM_STEP_TASKS_PER_NODE": "1(x2)"}, 1),  # a launcher a node: each has a folder of its own
        ({"SLURM_STEP_ID": ""}, 4),
        ({"SLURM_LOCALID": "x"}, None),
        ({"SLURM_NODEID": "7"}, None),
    ],
)
def test_tasks_of_a_slurm_step(changed: dict[str, str], count: int | None) -> None:
    environment = slurm(1, 4) | {"SLURM_STEP_TASKS_PER_NODE": "4(x2),3"} | changed

    found = sibling_tasks(environment)

    assert (found.count if found else None) == count
    assert found is None or found.several_machines


def test_a_requeued_job_is_another_start_with_a_name_of_its_own() -> None:
    first, second = (sibling_tasks(slurm(1, 4) | {"SLURM_RESTART_COUNT": count}) for count in ("0", "1"))

    assert first is not None
    assert second is not None
    assert first.key != second.key
    assert (first.name, second.name) == (f"slurm-t{os.getpid()}.0", f"slurm-t{os.getpid()}.0.1")


def test_a_batch_script_outside_a_step_is_alone() -> None:
    environment = {"SLURM_JOB_ID": "7", "SLURM_LOCALID": "0", "SLURM_TASKS_PER_NODE": "4", "SLURM_NTASKS": "4"}

    assert sibling_tasks(environment) is None


def test_two_starts_of_mpirun_are_not_one() -> None:
    """They are told apart by what started them; a wrapper around each task does not matter."""
    program = (
        "import os; from unhang.watch.job.sibling_tasks import sibling_tasks; found = sibling_tasks(os.environ);"
        "print(found.key, found.number, found.count, found.several_machines)"
    )
    mpi = "OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_SIZE=4"
    line = "; ".join(
        f"OMPI_COMM_WORLD_LOCAL_RANK={rank} {mpi} {wrapper} '{sys.executable}' -c '{program}'"
        for rank, wrapper in ((0, ""), (1, "sh -c '\"$@\"; true' sh"))
    )

    first, second = (
        subprocess.run(["sh", "-c", f"{line}; true"], capture_output=True, text=True, timeout=60, check=True).stdout
        for _ in range(2)
    )

    told = [said.split() for said in first.splitlines()]
    assert told[0][0] == told[1][0] != second.split()[0]
    assert [words[1:] for words in told] == [["0", "2", "True"], ["1", "2", "True"]]


class Step:
    """Tasks started as ``srun`` starts them: the same command line, each with its own variables and output."""

    def __init__(self, place: Path, count: int, command: list[str], *, step: str = "0", **more: str) -> None:
        self.place, self.folder = place, place / "run"
        self.errors = [place / f"stderr-{step}-{number}" for number in range(count)]
        self.fronts = []
        for number, path in enumerate(self.errors):
            with path.open("wb") as file:
                words = [*RUN, "--dir", str(self.folder), "--", *command]
                environment = os.environ | slurm(number, count, step) | more
                self.fronts.append(subprocess.Popen(words, stdout=file, stderr=file, env=environment))

    def wait(self) -> list[int]:
        return [front.wait(60) for front in self.fronts]

    def lines(self) -> list[str]:
        return [line for path in self.errors for line in path.read_text().splitlines() if line.startswith("unhang")]

    def watchers(self) -> list[int]:
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                words = (path / "cmdline").read_bytes() if path.name.isdigit() else b""
                if b"unhang.watch.watcher" in words and os.fsencode(self.folder) in words:
                    found.append(int(path.name))
        return found

    def watcher(self) -> int:
        """The one that watches; another may just find that it is not needed. 0 before there is one."""
        with suppress(OSError, ValueError):
            reader = Control.open_read(Path(json.loads((self.folder / "run.json").read_bytes())["records"]))
            return reader.read().watcher_pid if reader is not None else 0
        return 0

    def end(self) -> None:
        for front in self.fronts:
            front.kill()
            front.wait(10)


@pytest.fixture
def started() -> Iterator[list[Step]]:
    steps: list[Step] = []
    yield steps
    for step in steps:
        step.end()


def alone(step: Step) -> bool:
    """Whether it has one watcher, and for a second no other; one that is not needed leaves by itself."""
    for _ in range(10):
        if len(step.watchers()) != 1:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.job
def test_one_watcher_one_folder_and_exit_codes_of_their_own(tmp_path: Path, started: list[Step]) -> None:
    waits = f"for i in $(seq 600); do [ -e {tmp_path}/end ] && break; sleep 0.1; done"
    line = f'echo "$UNHANG_RUN" > {tmp_path}/records-$RANK; {waits}; exit $((RANK * 3))'
    step = Step(tmp_path, 4, ["sh", "-c", line])
    started.append(step)

    wait_for(lambda: len(list(tmp_path.glob("records-*"))) == 4)
    wait_for(lambda: alone(step))
    (tmp_path / "end").touch()
    assert step.wait() == [0, 3, 6, 9]

    (records,) = {path.read_text().strip() for path in tmp_path.glob("records-*")}
    assert not Path(records).exists()
    assert len(step.lines()) == 1, step.lines()  # said once, not four times
    wait_for(lambda: step.watchers() == [])


@pytest.mark.job
def test_another_takes_over_when_the_one_that_watches_goes(tmp_path: Path, started: list[Step]) -> None:
    """Front and watcher of the elected task are killed; then the commands end one by one, first the one nobody waits
    for: a front that is left says the last words."""
    waits = f"for i in $(seq 600); do [ -e {tmp_path}/end-$RANK ] && break; sleep 0.1; done"
    step = Step(
        tmp_path, 3, ["sh", "-c", f"touch {tmp_path}/go-$RANK; {waits}; touch {tmp_path}/gone-$RANK; exit $RANK"]
    )
    started.append(step)
    wait_for(lambda: len(list(tmp_path.glob("go-*"))) == 3 and step.watcher() in step.watchers())
    first = step.watcher()
    parent = int(Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[1])
    elected = next(number for number, front in enumerate(step.fronts) if front.pid == parent)

    os.kill(parent, signal.SIGKILL)
    os.kill(first, signal.SIGKILL)

    wait_for(lambda: step.watcher() != first and step.watcher() in step.watchers())
    for number in sorted(range(3), key=lambda number: number != elected):
        (tmp_path / f"end-{number}").touch()
        assert step.fronts[number].wait(60) == (-signal.SIGKILL if number == elected else number)
        wait_for((tmp_path / f"gone-{number}").exists)
    assert len(step.lines()) == 1, step.lines()


RAISES = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(20):
    dist.all_reduce(torch.ones(4))
if dist.get_rank() == 1:
    raise ValueError("of rank 1")
dist.all_reduce(torch.ones(4))
"""


@pytest.mark.job
def test_a_failure_is_said_before_mpirun_can_end_the_one_who_says_it(tmp_path: Path, started: list[Step]) -> None:
    """It ends all tasks as soon as one has ended badly."""
    (tmp_path / "train.py").write_text(RAISES)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    step = Step(tmp_path, 2, [sys.executable, str(tmp_path / "train.py")], **address)
    started.append(step)
    wait_for(lambda: any(front.poll() for front in step.fronts))
    step.end()

    said = "\n".join(path.read_text() for path in step.errors)
    assert "CRASH  Rank 1 ended with ValueError: of rank 1" in said
    assert len([line for line in said.splitlines() if line.startswith("CRASH")]) == 1


def test_who_waits_for_a_verdict_is_told_once_it_is_printed(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    assert not folder.is_verdict_printed(1 << 20, 0.0)
    folder.say("a line\n")
    folder.say("a verdict\n")
    folder.mark_verdict_end()
    folder.say("another line\n")

    assert not folder.is_verdict_printed(16, 0.0)
    assert folder.is_verdict_printed(17, 0.0)
    assert not folder.is_verdict_printed(17, time.time() + 1)  # of an earlier stall


@pytest.mark.job
def test_a_second_run_of_the_same_step_is_a_run_of_its_own(tmp_path: Path, started: list[Step]) -> None:
    """``srun bash -c 'unhang run A; unhang run B'``: a task that comes again comes to the next run."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one = Step(tmp_path / "a", 2, ["sh", "-c", f"touch {tmp_path}/go-$RANK; [ $RANK = 0 ] || sleep 3"])
    started.append(one)
    wait_for(lambda: len(list(tmp_path.glob("go-*"))) == 2)
    assert one.fronts[0].wait(30) == 0

    two = Step(tmp_path / "b", 2, ["sh", "-c", "exit 5"])
    started.append(two)

    assert two.wait() == [5, 5]
    assert one.wait() == [0, 0]
    assert (one.folder / "run.json").exists()
    assert json.loads((two.folder / "run.json").read_text())["command"] == ["sh", "-c", "exit 5"]


@pytest.mark.job
def test_each_machine_of_a_step_has_a_folder_of_its_own(tmp_path: Path, started: list[Step]) -> None:
    """One name on a shared file system, several machines: none is refused."""
    (tmp_path / "run" / "another-machine").mkdir(parents=True)
    step = Step(tmp_path, 1, ["true"], SLURM_STEP_TASKS_PER_NODE="1(x2)")
    started.append(step)

    assert step.wait() == [0]

    assert (tmp_path / "run" / os.uname().nodename / "run.json").exists()
