"""Work that the program marked as long gets no verdict, until it takes longer than it was to, or than others wait."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts

pytestmark = [pytest.mark.job, pytest.mark.timeout(250)]
MARKED, GUARDED = "marked_job.py", "guarded_job.py"
SLOW_AFTER_S = 4


def run(tmp_path: Path, seconds: float, allowed: str, *, limit_s: float = 600) -> tuple[dict[str, Any] | None, str]:
    """(verdict.json, what we printed) of the job with a marked evaluation."""
    return run_program(tmp_path, MARKED, str(seconds), allowed, str(limit_s))


def run_program(tmp_path: Path, name: str, *words: str) -> tuple[dict[str, Any] | None, str]:
    """(verdict.json, what we printed) of a job of two ranks under ``unhang run``."""
    program = shutil.copy(Path(__file__).with_name(name), tmp_path / "train.py")
    command = [sys.executable, "-c", "from unhang.cli.main import main; main()", "run", "--dir", str(tmp_path / "run")]
    command += ["--slow-after", str(SLOW_AFTER_S), "--lang", "en"]
    command += ["--", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(program), *words],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )
    verdict = tmp_path / "run" / "verdict.json"
    return (json.loads(verdict.read_text()) if verdict.exists() else None), done.stderr


@pytest.mark.live
def test_a_marked_evaluation_gets_a_quiet_line_and_no_verdict(tmp_path: Path) -> None:
    verdict, printed = run(tmp_path, 8, "120")

    assert (verdict or {}).get("status") == "healthy", printed
    assert "it has been in evaluation for " in printed
    assert "of at most 120 s as marked, train.py:" in printed
    assert "no problem found" in printed
    assert "unhang: 60 steps, median step" in printed
    took = re.search(r"marked phases: evaluation ([\d.]+)", printed)
    assert took is not None, printed
    assert float(took[1]) >= 8


@pytest.mark.live
def test_without_the_mark_it_is_said_to_be_slow(tmp_path: Path) -> None:
    _, printed = run(tmp_path, 11, "unmarked")

    assert "SLOW  " in printed
    assert "single-rank-work" in printed


@pytest.mark.live
def test_a_mark_without_a_bound_is_believed_while_the_rank_works(tmp_path: Path) -> None:
    verdict, printed = run(tmp_path, 11, "none")

    assert (verdict or {}).get("status") == "healthy", printed
    assert "it is in evaluation, as marked" in printed


@pytest.mark.live
def test_a_marked_evaluation_that_takes_too_long_is_said(tmp_path: Path) -> None:
    _, printed = run(tmp_path, 12, "5")

    assert printed.count("SLOW  ") == 1, printed
    assert "its program allows 5 s" in " ".join(printed.split())


@pytest.mark.live
def test_a_limit_that_ends_the_marked_evaluation_is_named_before_it_passes(tmp_path: Path) -> None:
    verdict, printed = run(tmp_path, 60, "300", limit_s=18)

    assert verdict is not None, printed
    assert (verdict["status"], verdict["findings"][0]["cause"]) == ("hang", "timeout-too-short")
    assert verdict["findings"][0]["ranks"] == [0]
    assert "The others' limit of 18 s may pass before it is done" in " ".join(printed.split())
    again = diagnose(build_facts(read_evidence([str(tmp_path / "run")])))
    assert (again.findings[0].cause.value, again.findings[0].ranks) == ("timeout-too-short", (0,))


@pytest.mark.live
def test_the_wait_for_the_first_rank_is_no_stall(tmp_path: Path) -> None:
    verdict, printed = run_program(tmp_path, GUARDED, "first", "11")

    assert (verdict or {}).get("status") == "healthy", printed
    assert "rank 1 has been waiting for rank 0 for " in printed
    assert "it is in tokenisation, as marked, train.py:" in printed


@pytest.mark.live
def test_a_guard_that_only_one_rank_reaches_is_named_while_it_waits(tmp_path: Path) -> None:
    _, printed = run_program(tmp_path, GUARDED, "together")

    text = " ".join(printed.partition("RanksMissing")[0].split())
    line = (tmp_path / "train.py").read_text().partition('with unhang.together("save"')[0].count("\n") + 1
    assert "HANG Rank 0 waits in unhang.together('save') for ranks that wait for it in all_reduce" in text, printed
    assert "rank-conditional-collective · certain · " in text
    assert f"train.py:{line} " in text
    assert "unhang.together('save') gives up in " in text
    assert ", ?" not in printed
