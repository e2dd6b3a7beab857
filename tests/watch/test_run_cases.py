"""Every case of the lab under ``unhang run``: cause, ranks and line while the job lives, and again from the folder."""

from __future__ import annotations

import json
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
from unhang.findings import Verdict
from unhang.wire.uncaught_exception import exceptions_file
from unhang_lab.expectation import find_mistakes, names_the_cause
from unhang_lab.lab_case import CASES, LabCase, find_case
from unhang_lab.watched import watch_case

pytestmark = [pytest.mark.job, pytest.mark.timeout(300)]

STALLED = [case for case in CASES if case.moment != "moving" and case.expected.cause is not None]
SLOW = [case for case in CASES if case.moment == "moving" and case.expected.cause is not None]
LIMIT_S = 120.0
HEALTHY_S = 25.0
"""Long enough for the watcher to have asked which rank is the slowest."""


@pytest.mark.parametrize("case", STALLED, ids=[case.name for case in STALLED])
def test_a_stalled_case_gets_its_verdict_while_it_lives(
    case: LabCase, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run") / "job"

    try:
        assert_found_and_read_back(case, folder)
    except AssertionError:
        if not ended_without_a_word(folder):
            raise
        assert_found_and_read_back(case, tmp_path_factory.mktemp("again") / "job")


@pytest.mark.parametrize("case", SLOW, ids=[case.name for case in SLOW])
def test_a_job_that_moves_at_the_pace_of_one_rank_is_told_so(
    case: LabCase, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert_found_and_read_back(case, tmp_path_factory.mktemp("run") / "job")


def assert_found_and_read_back(case: LabCase, folder: Path) -> None:
    """The verdict of a job that lives is right, and its run folder alone leads to the same one."""
    with watch_case(case, folder, ranks=fewest(case)) as job:
        said = job.wait_for(lambda: names_the_cause(job.verdict(), case), LIMIT_S)
        told = job.verdict()
        terminal = job.terminal.read_text()

    assert said, f"{told and told['findings'][:1]}\n{terminal}"
    assert told is not None
    verdict = diagnose(build_facts(read_evidence([str(folder)])))
    assert find_mistakes(case, folder, verdict, watched=True) == [], folder
    assert same_as(verdict) == as_told(told)
    assert verdict.unread == ()
    assert cited(told) <= {str(path) for path in folder.rglob("*")}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()} == {0o600}


def ended_without_a_word(folder: Path) -> bool:
    """Whether the launcher ended a rank of a job that fell before it had a processor to say where it had fallen."""
    if not (folder / "bundle.json").exists():
        return False
    ranks = json.loads((folder / "bundle.json").read_text("utf-8"))["processes"]
    return any(
        rank.get("terminated_by_launcher") and not exceptions_file(folder, rank["rank"]).exists() for rank in ranks
    )


def cited(told: Mapping[str, Any]) -> set[str]:
    """The files that a verdict quotes."""
    return {quote["source"] for finding in told["findings"] for quote in finding["evidence"]}


def fewest(case: LabCase) -> int:
    return case.ranks if case.expected.fewest_batches or case.name == "chain-of-groups" else case.at_least


def same_as(verdict: Verdict) -> tuple[Any, ...]:
    first = verdict.findings[0]
    line = first.where.line if first.where is not None else None
    return verdict.status.value, first.cause.value, first.certainty.value, first.ranks, line


def as_told(told: Mapping[str, Any]) -> tuple[Any, ...]:
    first = told["findings"][0]
    line = first["where"]["line"] if first["where"] else None
    return told["status"], first["cause"], first["certainty"], tuple(first["ranks"]), line


@pytest.mark.live
def test_a_job_that_trains_as_it_should_gets_no_verdict_while_it_does(tmp_path: Path) -> None:
    with watch_case(find_case("healthy-running"), tmp_path / "run", ranks=2) as job:
        assert job.wait_for(lambda: len(job.views) == 2, LIMIT_S)
        accused = job.wait_for(lambda: bool(job.verdict()), HEALTHY_S)
        living = job.front.poll() is None
        printed = job.terminal.read_text()

    assert not accused, job.verdict()
    assert living
    assert "unhang" not in printed


def test_a_job_that_ends_well_gets_its_two_lines_and_its_proof(tmp_path: Path) -> None:
    with watch_case(find_case("healthy"), tmp_path / "run", ranks=2) as job:
        job.wait_for(lambda: False, LIMIT_S)
        printed = [line for line in job.terminal.read_text().splitlines() if line.startswith("unhang")]

        assert job.front.returncode == 0
    assert printed == ["unhang: 60 optimizer steps", "unhang: no problem found"]
    told = job.verdict()
    assert told is not None
    assert (told["status"], told["findings"]) == ("healthy", [])


@pytest.mark.timeout(1200)
def test_killing_watcher_and_looks_changes_neither_the_job_nor_its_exit_code(tmp_path: Path) -> None:
    """At random moments, in the middle of looks too: one rank of the job is stopped and continued meanwhile."""
    chance, kills = random.Random(7), int(os.environ.get("UNHANG_TEST_KILLS", "6"))
    with watch_case(find_case("healthy-running"), tmp_path / "run", ranks=2) as job:
        assert job.wait_for(lambda: sum(bool(view.groups) for view in job.views.values()) == 2, LIMIT_S)
        victim = next(view.identity.pid for view in job.views.values() if view.identity.rank == 1)
        done = 0
        os.kill(victim, signal.SIGSTOP)
        deadline = time.monotonic() + LIMIT_S + 8 * kills  # a watcher that just ended is started again after a pause
        while done < kills and time.monotonic() < deadline:
            job.wait_for(lambda: False, chance.uniform(0.1, 1.2))
            ours = watchers(tmp_path / "run")
            if ours:
                os.kill(chance.choice(ours), signal.SIGKILL)
                done += 1
        os.kill(victim, signal.SIGCONT)
        before = {view.identity.rank: view.groups[0].enqueued for view in job.views.values()}
        moved = job.wait_for(
            lambda: all(view.groups[0].enqueued > before[view.identity.rank] + 10 for view in job.views.values()),
            LIMIT_S,
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
    with watch_case(find_case("stopped"), tmp_path / "run", ranks=2, options=("--on-hang", "abort")) as job:
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
    with watch_case(find_case("stopped"), tmp_path / "run", ranks=2, options=options) as job:
        told = tmp_path / "told.json"
        assert job.wait_for(lambda: told.exists() and b"rank-frozen" in told.read_bytes(), LIMIT_S)
        assert job.wait_for(lambda: "rank-frozen" in job.terminal.read_text(), LIMIT_S)
