"""Jobs that stall and were started without unhang: `unhang attach` names cause, rank and line, and leaves no trace."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import unhang
from tests.watch.attach.plain_jobs import CASES, PlainJob, plain_job
from unhang.watch.attach.rank_selection import select_ranks
from unhang.watch.process_state.proc_processes import ProcessTable
from unhang.watch.process_state.stack_collection import sample_kernel

pytestmark = pytest.mark.job


@pytest.fixture(scope="module")
def missing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainJob]:
    with plain_job(tmp_path_factory.mktemp("missing"), CASES / "missing_rank.py") as job:
        job.wait_until_printed("step 11")
        job.wait_until_waiting(3)
        yield job


def attach(*words: str | Path | int) -> dict[str, Any]:
    done = unhang("attach", *map(str, words), "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def line_of(script: str, text: str) -> int:
    lines = (CASES / script).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_the_launcher_names_its_job_and_the_folder_reads_back(missing: PlainJob, tmp_path: Path) -> None:
    folder = tmp_path / "seen"
    verdict = attach(missing.launcher.pid, "--dir", folder)
    first = verdict["findings"][0]
    assert verdict["status"] == "hang"
    assert (first["cause"], first["ranks"]) == ("rank-conditional-collective", [2])
    assert first["where"]["line"] == line_of("missing_rank.py", "dist.barrier()")
    assert first["waiter_where"]["line"] == line_of("missing_rank.py", "dist.all_gather(losses, mine)")
    assert verdict["world_size"] == 3
    assert verdict["ranks_missing"] == []
    again = json.loads(unhang("diagnose", folder, "--format", "json").stdout)
    kept = json.loads((folder / "verdict.json").read_text())
    for key in ("status", "ranks_seen", "world_size"):
        assert again[key] == verdict[key] == kept[key]
    for key in ("cause", "ranks", "where", "certainty"):
        assert again["findings"][0][key] == verdict["findings"][0][key]
    assert (folder / "source" / "missing_rank.py").exists()
    assert (folder / "logs" / "attempt_0" / "0" / "stdout.log").stat().st_size
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {*json.loads((folder / "bundle.json").read_bytes())["files"]} == files - {"bundle.json", "verdict.json"}
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_one_job_on_a_machine_needs_no_argument(missing: PlainJob) -> None:
    machine = ProcessTable.snapshot()
    mine = {missing.launcher.pid, *(p.pid for p in machine.descendants(missing.launcher.pid))}
    machine.processes = {pid: process for pid, process in machine.processes.items() if pid in mine}
    chosen = select_ranks(machine, [])
    assert [rank.rank for rank in chosen.ranks] == [0, 1, 2]
    assert chosen.launcher == missing.launcher.pid


def test_the_text_says_what_to_do_now(missing: PlainJob, tmp_path: Path) -> None:
    said = unhang("attach", str(missing.pid_of(1)), "--dir", tmp_path / "seen").stdout
    assert "stop it? yes" in said
    assert f"kill -TERM {missing.launcher.pid}" in said
    assert f"unhang diagnose {tmp_path / 'seen'}" in said


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root to give up rights")
def test_without_the_right_to_trace_it_says_who_may_look(missing: PlainJob, tmp_path: Path) -> None:
    dropped = ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"]
    start = [sys.executable, "-c", "from unhang.cli.main import main; main()", "attach", str(missing.launcher.pid)]
    done = subprocess.run(
        [*dropped, *start, "--dir", str(tmp_path / "seen"), "--format", "json"],
        capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    verdict = json.loads(done.stdout)
    blind = next(gap for gap in verdict["not_checked"] if gap["what"].startswith("what ranks 0-2 were"))
    assert "SYS_PTRACE" in blind["because"]
    assert blind["how"]
    kernel = json.loads((tmp_path / "seen" / "bundle.json").read_text())["processes"][0]["kernel"]
    assert [look["state"] for look in kernel][:2] == ["S", "S"]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root to become another user")
def test_another_users_job_is_answered_with_who_may_look(missing: PlainJob) -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    start = [sys.executable, "-c", "from unhang.cli.main import main; main()", "attach"]
    if subprocess.run([*nobody, *start, "--help"], capture_output=True, check=False).returncode:
        pytest.skip("this Python is closed to other users")
    for words in ([], [str(missing.launcher.pid)]):
        done = subprocess.run(
            [*nobody, *start, *words], capture_output=True, text=True, timeout=100, check=False, cwd="/"
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert "to root" in done.stderr
        assert "sudo" in done.stderr


def test_a_stopped_rank_is_found_and_stays_as_it_was(tmp_path: Path) -> None:
    with plain_job(tmp_path, CASES / "steady.py", ranks=2) as job:
        job.wait_until_printed("step 5/")
        frozen = job.pid_of(1)
        os.kill(frozen, signal.SIGSTOP)
        job.wait_until_waiting(2)
        verdict = attach(job.launcher.pid, "--dir", tmp_path / "seen")
        first = verdict["findings"][0]
        assert (first["cause"], first["ranks"], first["certainty"]) == ("rank-frozen", [1], "certain")
        states = {rank.rank: sample_kernel(rank.pid).state for rank in job.ranks}
        assert states[1] == "T"
        assert states[0] != "T"
        os.kill(frozen, signal.SIGCONT)
        before = max(map(len, job.printed()))
        job.wait_for(lambda: max(map(len, job.printed())) > before)


def test_a_job_that_sleeps_most_of_each_step_is_healthy(tmp_path: Path) -> None:
    with plain_job(tmp_path, CASES / "steady_slow_steps.py", ranks=2) as job:
        job.wait_until_printed("step 2/")
        done = unhang("attach", str(job.launcher.pid), "--dir", tmp_path / "seen", "--for", "4", "--format", "json")
        assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "healthy")
        assert json.loads(done.stdout)["stop"]["advice"] == "no"


def test_a_rank_that_works_alone_is_slow_not_stuck(tmp_path: Path) -> None:
    with plain_job(tmp_path, CASES / "rank0_tokenises.py", ranks=2) as job:
        job.wait_until_waiting(1)
        verdict = attach(job.pid_of(0), "--dir", tmp_path / "seen")
        if not verdict["findings"]:  # a crowded machine: rank 1 stood still before it came to the barrier
            verdict = attach(job.pid_of(0), "--dir", tmp_path / "later")
        first = verdict["findings"][0]
        assert verdict["status"] == "slow"
        assert (first["cause"], first["ranks"]) == ("single-rank-work", [0])
        assert first["where"]["file"].endswith("rank0_tokenises.py")


def test_a_thread_that_sleeps_with_the_interpreter_lock_is_found(tmp_path: Path) -> None:
    with plain_job(tmp_path, CASES / "holds_interpreter_lock.py", ranks=2) as job:
        job.wait_until_printed("step 19")
        job.wait_until_waiting(2)
        verdict = attach(job.launcher.pid, "--dir", tmp_path / "seen")
        first = verdict["findings"][0]
        assert (first["cause"], first["ranks"]) == ("rank-frozen", [1])
        assert first["where"]["line"] == line_of("holds_interpreter_lock.py", "library.usleep")
        assert all(sample_kernel(rank.pid).state != "T" for rank in job.ranks)
