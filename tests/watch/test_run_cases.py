"""Every case of the lab under ``unhang run``: cause, ranks and line while the job lives, and again from the folder."""

from __future__ import annotations

import os
import random
import signal
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Cause
from unhang.lab.catalog import CASES, Case, find
from unhang.lab.expectation import mistakes
from unhang.lab.watched import Watched, watched

pytestmark = [pytest.mark.job, pytest.mark.timeout(120)]

WORK = (Cause.SINGLE_RANK_WORK, Cause.SLOW_DATA_LOADING, Cause.TIMEOUT_TOO_SHORT)
"""The laggard works: status slow until the job's own limit is near."""
MOVING = [case.name for case in CASES if case.moment == "moving" or case.expected.cause is None]
STALLED = [case for case in CASES if case.name not in MOVING]
LIMIT_S = 60.0


FALLS_AT_ONCE = ("different-sizes", "different-dtype")
"""Gloo aborts within milliseconds: without a dump made as the survivors fall the cause is told, not the rank."""


@pytest.mark.parametrize("case", STALLED, ids=[case.name for case in STALLED])
def test_a_stalled_case_gets_its_verdict_while_it_lives(case: Case, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("run") / "job"

    with watched(case, folder, ranks=fewest(case)) as job:
        said = job.wait_for(lambda: names_the_cause(job), LIMIT_S)
        told = job.verdict()
        terminal = job.terminal.read_text()

    assert said, f"{told and told['findings'][:1]}\n{terminal}"
    assert told is not None
    verdict = diagnose(build_facts(read_evidence([str(folder)])))
    wrong = [text for text in mistakes(case, folder, verdict) if not (slow_is_right(case, told) and "status" in text)]
    first = verdict.findings[0]
    assert first.cause is case.expected.cause
    assert wrong == [] or case.name in FALLS_AT_ONCE, folder
    assert told["status"] == verdict.status.value
    assert told["findings"][0]["cause"] == first.cause.value
    assert tuple(told["findings"][0]["ranks"]) == first.ranks
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()} == {0o600}


def fewest(case: Case) -> int:
    return case.ranks if case.expected.fewest_batches or case.name == "chain-of-groups" else case.at_least


def slow_is_right(case: Case, told: Mapping[str, Any]) -> bool:
    return case.expected.cause in WORK and told["status"] == "slow"


def names_the_cause(job: Watched) -> bool:
    told, expected = job.verdict(), job.case.expected
    if not told or not told["findings"] or expected.cause is None:
        return False
    right = told["status"] in expected.status or slow_is_right(job.case, told)
    return right and told["findings"][0]["cause"] == expected.cause.value


def test_a_job_that_ends_well_gets_two_lines_and_no_verdict(tmp_path: Path) -> None:
    with watched(find("healthy"), tmp_path / "run", ranks=2) as job:
        job.wait_for(lambda: False, LIMIT_S)
        printed = [line for line in job.terminal.read_text().splitlines() if line.startswith("unhang")]

        assert job.front.returncode == 0
    assert len(printed) == 2, printed
    assert job.verdict() is None


def test_killing_watcher_and_looks_changes_neither_the_job_nor_its_exit_code(tmp_path: Path) -> None:
    """At random moments, in the middle of looks too: one rank of the job is stopped and continued meanwhile."""
    chance, kills = random.Random(7), int(os.environ.get("UNHANG_TEST_KILLS", "10"))
    with watched(find("healthy-running"), tmp_path / "run", ranks=2) as job:
        assert job.wait_for(lambda: sum(bool(view.groups) for view in job.views.values()) == 2, LIMIT_S)
        victim = next(view.identity.pid for view in job.views.values() if view.identity.rank == 1)
        done = 0
        os.kill(victim, signal.SIGSTOP)
        deadline = time.monotonic() + 60
        while done < kills and time.monotonic() < deadline:
            job.wait_for(lambda: False, chance.uniform(0.1, 1.2))
            ours = watchers(tmp_path / "run")
            if ours:
                os.kill(chance.choice(ours), signal.SIGKILL)
                done += 1
        os.kill(victim, signal.SIGCONT)
        before = {view.identity.rank: view.groups[0].enqueued for view in job.views.values()}
        moved = job.wait_for(
            lambda: all(view.groups[0].enqueued > before[view.identity.rank] + 10 for view in job.views.values()), 30
        )
        living = job.front.poll() is None

    assert done == kills
    assert moved
    assert living


def watchers(folder: Path) -> list[int]:
    """The watcher of this run and the looks it forked: their command lines are alike."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                words = (path / "cmdline").read_bytes()
            except OSError:
                continue
            if b"unhang.watch.watcher" in words and str(folder).encode() in words:
                found.append(int(path.name))
    return sorted(found)


def test_abort_ends_a_stalled_job_and_leaves_no_process(tmp_path: Path) -> None:
    with watched(find("stopped"), tmp_path / "run", ranks=2, options=("--on-hang", "abort")) as job:
        ended = job.wait_for(lambda: job.front.poll() is not None, LIMIT_S)
        pids = [view.identity.pid for view in job.views.values()]
        left = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        printed = job.terminal.read_text()

    assert ended, printed
    assert left == []
    assert job.front.returncode not in (0, None)
    told = job.verdict()
    assert told is not None
    assert told["findings"][0]["cause"] == "rank-frozen"
    assert "--on-hang abort" in printed


def test_the_user_s_command_gets_the_verdict(tmp_path: Path) -> None:
    options = ("--on-hang-exec", f"cat > {tmp_path / 'told.json'}")
    with watched(find("stopped"), tmp_path / "run", ranks=2, options=options) as job:
        told = tmp_path / "told.json"
        assert job.wait_for(lambda: told.exists() and b"rank-frozen" in told.read_bytes(), LIMIT_S)
        assert job.wait_for(lambda: "rank-frozen" in job.terminal.read_text(), LIMIT_S)
