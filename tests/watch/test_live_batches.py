"""Jobs that nobody here had written: what was right of them at first sight stays right, and nothing *certain* is wrong.

Of each batch one output and, day by day, one half of its jobs, so that all tests of living jobs together take an hour;
three jobs at a time: they wait more than they compute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tomli

pytestmark = [pytest.mark.job, pytest.mark.live]
ROOT = Path(__file__).parents[2]
BATCHES = ROOT / "benchmarks" / "live"
TURNS = {"one": "file", "two": "pipe", "three": "pipe", "four": "file", "five": "terminal"}
LIMIT_S = 600
LANES = 3
CHANCE = 1
"""So many of a half may come out otherwise: when a rank is looked at is chance."""
TURN = int(os.environ.get("UNHANG_TEST_TURN", time.time() // 86_400)) % 2
"""Which half: 0 or 1."""
NOT_OUR_WORD = {"20-layer-drop"}
"""Its writer has another name for the cause, see docs/benchmarks.md."""


def at_first_sight(batch: str, to: str) -> dict[str, dict[str, Any]]:
    """What was said of each job, its output led the same way where it was judged so."""
    rows = map(json.loads, (BATCHES / "first_sight.jsonl").read_text("utf-8").splitlines())
    of_batch = sorted((row for row in rows if row["batch"] == batch), key=lambda row: bool(row["to"] == to))
    return {job["name"]: job for row in of_batch for job in row["jobs"]}


def stalling(batch: str) -> list[str]:
    """Names of the jobs of ``batch`` that stand still in the end."""
    truths = {path.parent.name: tomli.loads(path.read_text("utf-8")) for path in (BATCHES / batch).glob("*/truth.toml")}
    return sorted(name for name, truth in truths.items() if truth["kind"] != "healthy" and "phase" not in truth)


def judged_now(one: tuple[str, str]) -> dict[str, Any]:
    """What is said of a job of a batch today; nothing where it had no end."""
    batch, name = one
    words = [sys.executable, "-m", "benchmarks", "live-jobs", str(BATCHES / batch), "--to", TURNS[batch], "--no-twins"]
    words += ["--settled", "8", "--slow-after", "8", "--only", name]
    try:
        told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {}
    rows = (json.loads(line) for line in told.stdout.splitlines() if line.startswith("{"))
    return next((row for row in rows if row.get("name") == name), {})


@pytest.fixture(scope="module")
def judged() -> dict[tuple[str, str], dict[str, Any]]:
    """All jobs of all batches in one row, so that none waits for the last of a batch."""
    jobs = [(batch, name) for batch in sorted(TURNS) for name in stalling(batch)[TURN::2]]
    with ThreadPoolExecutor(LANES) as lanes:
        return dict(zip(jobs, lanes.map(judged_now, jobs), strict=True))


@pytest.mark.timeout(0)  # each job has its limit
@pytest.mark.parametrize("batch", sorted(TURNS))
def test_what_was_right_at_first_sight_stays_right(batch: str, judged: dict[tuple[str, str], dict[str, Any]]) -> None:
    now = {name: job for (of, name), job in judged.items() if of == batch}

    assert [name for name, job in now.items() if not job] == []
    assert [name for name, job in now.items() if job["wrong_certain"] and name not in NOT_OUR_WORD] == []
    before = at_first_sight(batch, TURNS[batch])
    for what in ("cause_right", "ranks_right", "line_right"):
        lost = [name for name, job in now.items() if before[name][what] and not job[what]]
        assert len(lost) <= CHANCE, (what, lost)
