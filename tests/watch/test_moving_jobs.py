"""Real jobs that move: the rank that holds them up is named with the step since when, and nobody else ever is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts

pytestmark = [pytest.mark.job, pytest.mark.live]
PROGRAM = Path(__file__).with_name("moving_job.py")


def run(tmp_path: Path, shape: str, seconds: int) -> tuple[dict[str, Any] | None, str]:
    """(verdict.json, what was printed) of a job under ``unhang run``."""
    program = shutil.copy(PROGRAM, tmp_path / "train.py")
    command = [sys.executable, "-c", "from unhang.cli.main import main; main()", "run", "--dir", str(tmp_path / "run")]
    command += ["--", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [*command, str(program), shape, str(seconds)],
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    verdict = tmp_path / "run" / "verdict.json"
    return (json.loads(verdict.read_text()) if verdict.exists() else None), done.stderr


def test_a_writer_that_grows_slow_is_named_with_its_line_and_the_step(tmp_path: Path) -> None:
    verdict, printed = run(tmp_path, "writer", 75)

    assert verdict is not None, printed
    first = verdict["findings"][0]
    lines = (tmp_path / "train.py").read_text().splitlines()
    assert (verdict["status"], first["cause"], first["ranks"]) == ("slow", "single-rank-work", [0])
    assert first["where"]["function"] == "record"
    assert "os.fsync" in lines[first["where"]["line"] - 1]
    since = next(line for line in first["because"] if line.startswith("since about step"))
    assert 400 <= int(since.split()[3].strip(",")) <= 700
    assert printed.count("SLOW ") == 1
    again = diagnose(build_facts(read_evidence([str(tmp_path / "run")])))
    assert (again.findings[0].cause.value, again.findings[0].ranks) == ("single-rank-work", (0,))
    assert [str(line) for line in again.findings[0].because] == first["because"]


@pytest.mark.parametrize("shape", ["noise", "evaluation", "longer-sequences"])
def test_nobody_is_blamed_in_a_healthy_job(shape: str, tmp_path: Path) -> None:
    verdict, printed = run(tmp_path, shape, 60)

    assert (verdict or {}).get("status") == "healthy", printed
    assert "no problem found" in printed


@pytest.mark.parametrize(
    ("shape", "differ", "line"),
    [("other-dtype", ("with float", "with int"), "all_reduce"), ("shorter-broadcast", ("100", "160"), "broadcast")],
)
def test_calls_that_differ_and_stop_nothing_are_named_while_the_job_goes_on(
    shape: str, differ: tuple[str, str], line: str, tmp_path: Path
) -> None:
    verdict, printed = run(tmp_path, shape, 14)

    assert verdict is not None, printed
    first = verdict["findings"][0]
    lines = (tmp_path / "train.py").read_text().splitlines()
    assert (verdict["status"], first["cause"], first["certainty"]) == ("slow", "collective-mismatch", "certain")
    assert all(value in first["summary"] for value in differ)
    # dumps of a job that moves have no lines: one is named where a sample happened to find the rank in such a call
    assert first["where"] is None or line in lines[first["where"]["line"] - 1]
    assert {call["operation"] for call in first["calls"]} == {line}
    assert printed.count("SLOW ") == 1
    again = diagnose(build_facts(read_evidence([str(tmp_path / "run")])))
    assert again.findings[0].cause.value == "collective-mismatch"
    assert str(again.findings[0].summary) == first["summary"]
