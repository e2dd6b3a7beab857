"""Having RANK in its environment does not make a process a rank."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from unhang.errors import UsageError
from unhang.watch.attach import rank_selection
from unhang.watch.attach.collected_evidence import settings_of
from unhang.watch.attach.evidence_collection import create_bundle_folder
from unhang.watch.attach.rank_selection import select_ranks
from unhang.watch.process_state import rank_processes as ranks
from unhang.watch.process_state.proc_processes import Process, ProcessTable, read_process
from unhang.watch.process_state.rank_processes import ranks_of

JOB = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "r"}
BASE = 4_000_000
"""Larger than any process number of this machine."""


def process(pid: int, parent: int, *command: str, environment: Mapping[str, str] | None, started: int = 0) -> Process:
    return Process(BASE + pid, BASE + parent, "S", started or pid, 1000, command, environment)


def rank_environment(rank: int, world: int = 2, **more: str) -> dict[str, str]:
    return {**JOB, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), **more}


def machine(*processes: Process) -> ProcessTable:
    return ProcessTable({p.pid: p for p in processes})


def torchrun(environment: Mapping[str, str] | None = None) -> list[Process]:
    mine = {"PATH": "/bin"} if environment is None else environment
    found = [process(1, 0, "bash", environment={}), process(2, 1, "python", "torchrun", "train.py", environment=mine)]
    for rank in (0, 1):
        pid = 10 + 10 * rank
        own = rank_environment(rank)
        found.append(process(pid, 2, "python", "-u", "train.py", environment=own))
        found.append(process(pid + 1, pid, "python", "-u", "train.py", environment=own))
        tracker = "from multiprocessing.resource_tracker import main;main(5)"
        found.append(process(pid + 2, pid, "python", "-c", tracker, environment=own))
        spawned = "from multiprocessing.spawn import spawn_main; spawn_main()"
        found.append(process(pid + 3, pid, "python", "-c", spawned, "--multiprocessing-fork", environment=own))
    return found


def pids(found: ProcessTable) -> list[tuple[int, int]]:
    return [(rank.rank, rank.pid - BASE) for rank in ranks_of(found)]


def test_workers_and_trackers_are_no_ranks() -> None:
    assert pids(machine(*torchrun())) == [(0, 10), (1, 20)]


def test_a_launcher_with_a_rank_in_its_environment_is_no_rank() -> None:
    """Operators give the launcher of each node RANK and WORLD_SIZE, counted in nodes."""
    assert pids(machine(*torchrun({"RANK": "0", "WORLD_SIZE": "2"}))) == [(0, 10), (1, 20)]


def test_a_shell_around_a_rank_is_no_rank() -> None:
    own = rank_environment(0, 1)
    found = machine(process(1, 0, "bash", "run.sh", environment=own), process(2, 1, "python", "t.py", environment=own))
    assert pids(found) == [(0, 2)]


def test_a_launcher_under_srun_is_no_rank() -> None:
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    found = [process(2, 1, "python", "-m", "torch.distributed.run", "t.py", environment=slurm)]
    found.append(process(3, 2, "python", "t.py", environment=rank_environment(0, 1, **slurm)))
    assert pids(machine(*found)) == [(0, 3)]


def test_ranks_of_mpirun_and_srun_are_ranks() -> None:
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "MASTER_PORT": "1"}
    found = machine(
        process(5, 1, "python", "t.py", environment=mpi), process(6, 1, "python", "t.py", environment=slurm)
    )
    assert sorted(pids(found)) == [(1, 5), (3, 6)]


def test_of_two_that_claim_one_rank_the_newest_is_it() -> None:
    own = rank_environment(0, 1)
    found = machine(process(5, 1, "python", "t.py", environment=own), process(9, 1, "python", "t.py", environment=own))
    assert pids(found) == [(0, 9)]


@pytest.mark.parametrize("values", [("x", "2"), ("2", "2"), ("-1", "2"), ("0", "99999999999"), ("", "")])
def test_numbers_that_cannot_be_are_no_rank(values: tuple[str, str]) -> None:
    own = {"RANK": values[0], "WORLD_SIZE": values[1]}
    assert pids(machine(process(5, 1, "python", "t.py", environment=own))) == []


@pytest.mark.parametrize("pid", [1, 2, 10, 11, 23])
def test_any_process_of_a_job_names_it(pid: int) -> None:
    chosen = select_ranks(machine(*torchrun()), [BASE + pid])
    assert [rank.pid - BASE for rank in chosen.ranks] == [10, 20]


def two_jobs() -> ProcessTable:
    return machine(*torchrun(), process(50, 1, "python", "b.py", environment=rank_environment(0, 1, MASTER_PORT="1")))


@pytest.mark.parametrize("still", [0, 2])
def test_two_jobs_of_which_not_one_stands_still_are_listed(still: int) -> None:
    with pytest.raises(UsageError, match="2 jobs run on this machine") as caught:
        select_ranks(two_jobs(), [], stuck=lambda jobs: list(jobs)[:still])
    assert "train.py" in str(caught.value)
    assert "b.py" in str(caught.value)


def test_of_two_jobs_the_one_that_stands_still_is_taken_and_the_other_named() -> None:
    chosen = select_ranks(two_jobs(), [], stuck=lambda jobs: [job for job, ranks in jobs.items() if len(ranks) == 1])
    assert [rank.pid - BASE for rank in chosen.ranks] == [50]
    assert len(chosen.others) == 1
    assert "2 ranks of python -u train.py" in chosen.others[0]


def test_a_job_that_is_named_is_taken_whatever_stands_still() -> None:
    def never(_: object) -> list[tuple[str, ...]]:
        raise AssertionError("nobody asked")

    assert [rank.pid - BASE for rank in select_ranks(two_jobs(), [BASE + 50], stuck=never).ranks] == [50]


def test_no_advice_leads_to_the_command_that_gives_it() -> None:
    """With no rank on the machine neither command names the other."""
    alone = machine(process(1, 0, "python", "serve.py", environment={}))
    for pids_named in ([], [BASE + 1], [BASE + 7]):
        with pytest.raises(UsageError) as caught:
            select_ranks(alone, pids_named)
        assert "unhang attach" not in (caught.value.next_step or "")


def test_a_wrong_number_beside_a_job_leads_to_that_job() -> None:
    with pytest.raises(UsageError) as caught:
        select_ranks(machine(*torchrun(), process(60, 0, "sleep", "9", environment={})), [BASE + 60])
    assert caught.value.next_step == f"unhang attach {BASE + 2}"


@pytest.mark.parametrize(
    ("title", "program", "is_python"),
    [
        ("pt_main_thread", "/usr/bin/python3.11", True),
        ("ray::Worker.train", "/opt/conda/bin/python3.12", True),
        ("python", "/usr/bin/bash", False),
        ("python3", "", True),
    ],
)
def test_the_program_tells_python_and_not_the_title(title: str, program: str, is_python: bool) -> None:
    assert Process(BASE, 1, "S", 1, 1000, (title,), {}, program).is_python is is_python


def test_a_process_with_another_title_is_seen_as_python() -> None:
    with subprocess.Popen(
        ["bash", "-c", f"exec -a trainer:rank0 {sys.executable} -c 'import time; time.sleep(60)'"]
    ) as own:
        try:
            end = time.monotonic() + 10
            while (seen := read_process(own.pid)) is None or seen.command[:1] != ("trainer:rank0",):
                assert time.monotonic() < end
                time.sleep(0.02)
            assert seen.is_python
        finally:
            own.kill()


def test_no_rank_at_all_says_what_was_looked_for() -> None:
    with pytest.raises(UsageError, match="RANK and WORLD_SIZE"):
        select_ranks(machine(process(1, 0, "bash", environment={})), [])
    with pytest.raises(UsageError, match="no process"):
        select_ranks(machine(), [BASE])


def test_a_process_that_is_no_rank_is_named() -> None:
    found = machine(
        process(1, 0, "sleep", "99", environment={}),
        process(2, 0, "python", "serve.py", environment={}),
        process(3, 0, "python", "serve.py", environment=None),
        *torchrun()[2:],
    )
    for pid, words in ((1, "is no Python process"), (2, "is no rank and started none"), (3, "belongs to")):
        with pytest.raises(UsageError, match=words) as caught:
            select_ranks(machine(*(p for p in found.processes.values() if p.pid < BASE + 10)), [BASE + pid])
        assert str(BASE + pid) in str(caught.value)


def test_a_number_of_a_container_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_selection, "pid_in_namespace", lambda pid: 7 if pid == BASE + 10 else None)
    with pytest.raises(UsageError, match="there is no process"):
        select_ranks(machine(*torchrun()), [2**22 + 7])
    with pytest.raises(UsageError, match=f"numbering it is {BASE + 10}"):
        select_ranks(machine(*torchrun()), [7])


def test_another_users_job_is_left_alone_unless_named() -> None:
    closed = [process(2, 1, "python", "torchrun", "t.py", environment=None)]
    closed += [process(pid, 2, "python", "t.py", environment=None) for pid in (3, 4)]
    with pytest.raises(UsageError, match="you may not look into it") as caught:
        select_ranks(machine(*closed), [])
    assert str(BASE + 2) in str(caught.value)
    chosen = select_ranks(machine(*closed), [BASE + 3])
    assert [(rank.rank, rank.guessed) for rank in chosen.ranks] == [(0, True), (1, True)]
    assert chosen.foreign == (BASE + 3, BASE + 4)


def test_ranks_that_their_program_started_are_told_by_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "has_group_threads", lambda pid: pid - BASE in (3, 4, 9))
    spawn = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()")
    found = [process(2, 1, "python", "train.py", environment={}), process(9, 1, "python", "alone.py", environment={})]
    found += [process(pid, 2, *spawn, environment={}) for pid in (3, 4)]
    found.append(process(5, 3, *spawn, environment={}))
    for words in ([], [BASE + 2], [BASE + 4]):
        chosen = select_ranks(machine(*found), words)
        assert [(rank.rank, rank.pid - BASE, rank.guessed) for rank in chosen.ranks] == [(0, 3, True), (1, 4, True)]
        assert chosen.launcher == BASE + 2


def test_a_rank_without_a_process_is_gone_not_elsewhere() -> None:
    more = {"GROUP_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    found = machine(process(5, 1, "python", "t.py", environment=rank_environment(3, 4, **more)))
    assert select_ranks(found, []).gone == (2,)
    assert select_ranks(found, []).several_hosts
    alone = {"GROUP_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    found = machine(process(5, 1, "python", "t.py", environment=rank_environment(1, 2, **alone)))
    assert (select_ranks(found, []).gone, select_ranks(found, []).several_hosts) == ((0,), False)


def test_settings_hold_no_secret() -> None:
    own = rank_environment(0, NCCL_DEBUG="INFO", TORCH_HUB_TOKEN="t", AWS_SECRET_ACCESS_KEY="k", HF_TOKEN="h")
    rank = ranks_of(machine(process(5, 1, "python", "t.py", environment=own)))[0]
    assert set(settings_of(rank)) == {"NCCL_DEBUG", "TORCHELASTIC_RUN_ID"}


def test_each_host_has_a_folder_where_there_are_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNHANG_NODE_NAME", "h1")
    assert create_bundle_folder(tmp_path / "one", several_hosts=False) == tmp_path / "one"
    shared = tmp_path / "shared"
    assert create_bundle_folder(shared, several_hosts=True) == shared / "h1"
    monkeypatch.setenv("UNHANG_NODE_NAME", "../h2")
    assert create_bundle_folder(shared, several_hosts=True) == shared / ".._h2"
    monkeypatch.setenv("UNHANG_NODE_NAME", "h1")
    (shared / "h1" / "x").write_text("")
    with pytest.raises(UsageError, match="is not empty"):
        create_bundle_folder(shared, several_hosts=True)


def jobs_in(
    monkeypatch: pytest.MonkeyPatch, *told: tuple[int, str]
) -> dict[tuple[str, ...], tuple[ranks.LiveRank, ...]]:
    """Jobs a, b, … of one rank each: whose it is, and in which folder below this one it was started."""
    found, folders = {}, {}
    for number, (uid, folder) in enumerate(told):
        own = Process(BASE + number, 1, "S", 1, uid, ("python", "train.py"), {})
        found[(chr(97 + number),)] = (ranks.LiveRank(own, 0, 1, 0, 0, None, (chr(97 + number),)),)
        folders[BASE + number] = folder
    monkeypatch.setattr(rank_selection, "_folder_of", lambda mine: (Path.cwd() / folders[mine[0].pid]).resolve())
    return found


ME, SHE = 7, 8


@pytest.mark.parametrize(
    ("told", "still", "likely"),
    [
        ([(ME, "."), (SHE, ".")], "ab", "a"),  # of this user
        ([(ME, "."), (ME, "..")], "b", "a"),  # of this folder, and the other one is named as standing still
        ([(ME, "run1"), (ME, "run2"), (ME, "..")], "b", "b"),  # that stands still
        ([(ME, ".."), (ME, "../x")], "b", "b"),
        ([(ME, ".."), (ME, "../x")], "", "ab"),
        ([(SHE, "."), (SHE, "..")], "", "a"),
    ],
)
def test_of_several_jobs_the_likely_one(
    told: list[tuple[int, str]], still: str, likely: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_selection.os, "geteuid", lambda: ME)
    jobs = jobs_in(monkeypatch, *told)
    looked: list[tuple[str, ...]] = []

    def stuck(seen: Mapping[tuple[str, ...], object]) -> list[tuple[str, ...]]:
        looked.extend(seen)
        return [job for job in seen if job[0] in still]

    found, stand = rank_selection.likely_jobs(jobs, stuck)
    assert ["".join(job) for job in found] == list(likely)
    assert all((uid == ME or ME not in dict(told)) for job, (uid, _) in zip(jobs, told, strict=True) if job in looked)
    assert "stands still" in rank_selection.job_name(jobs[stand[0]], stands_still=True) if stand else True
