"""Who has not come to init_process_group while others wait there."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Cause, Status
from unhang.watch.job.job_ranks import rank_processes
from unhang.wire.process_registration import ProcessRegistration
from unhang_lab.lab_case import find_case
from unhang_lab.watched import watch_case

LIMIT_S = 120.0


def born(pid: int, rank: int, *, parent: int = 1, at_s: float = 0.0) -> ProcessRegistration:
    return ProcessRegistration(pid, parent, rank, rank, 4, 0, "node", "train.py", at_s)


def test_a_child_of_a_rank_is_not_the_rank() -> None:
    registrations = [born(10, 0), born(20, 0, parent=10, at_s=1.0), born(21, 0, parent=20, at_s=2.0), born(11, 1)]

    assert {rank: registration.pid for rank, registration in rank_processes(registrations).items()} == {0: 10, 1: 11}


def test_a_launcher_that_was_given_a_rank_is_not_that_rank() -> None:
    registrations = [born(5, 0), born(10, 0, parent=5, at_s=1.0), born(11, 1, parent=5, at_s=1.0)]

    assert {rank: registration.pid for rank, registration in rank_processes(registrations).items()} == {0: 10, 1: 11}


def test_of_programs_that_follow_one_another_the_last_is_the_rank() -> None:
    registrations = [born(10, 0), born(30, 0, at_s=60.0), born(11, 1)]

    assert {rank: registration.pid for rank, registration in rank_processes(registrations).items()} == {0: 30, 1: 11}


@pytest.mark.job
@pytest.mark.live
def test_a_rank_that_is_never_started_is_named(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "3"}
    two = f"for rank in 0 1; do RANK=$rank LOCAL_RANK=$rank {sys.executable} train.py & done; wait"
    folder = tmp_path / "run"

    with watch_case(find_case("late-to-init"), folder, ranks=2, extra=place, launch=("sh", "-c", two)) as job:
        said = job.wait_for(lambda: "for rank 2" in job.terminal.read_text(), LIMIT_S)
        assert job.wait_for(lambda: "rendezvous" in str(job.verdict()), LIMIT_S)
        told = job.verdict()

    assert said
    assert told is not None
    verdict = diagnose(build_facts(read_evidence([str(folder)])))
    assert (verdict.status, verdict.findings[0].cause) == (Status.HANG, Cause.RENDEZVOUS)
    assert verdict.findings[0].ranks == tuple(told["findings"][0]["ranks"]) == (2,)
