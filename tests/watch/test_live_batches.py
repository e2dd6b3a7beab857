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
from pathlib import Path
from typing import Any

import pytest
import tomli

pytestmark = [pytest.mark.job, pytest.mark.live]
ROOT = Path(__file__).parents[2]
BATCHES = ROOT / "benchmarks" / "live"
TURNS = {"one": "file", "two": "pipe", "three": "pipe", "four": "file", "five": "terminal"}
LIMIT_S = 2400
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


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("batch", sorted(TURNS))
def test_what_was_right_at_first_sight_stays_right(batch: str) -> None:
    to = TURNS[batch]
    names = stalling(batch)[TURN::2]
    words = [sys.executable, "-m", "benchmarks", "live-jobs", str(BATCHES / batch), "--to", to, "--no-twins"]
    words += ["--settled", "8", "--slow-after", "8", "--only"]
    lanes = [
        subprocess.Popen([*words, *names[lane::LANES]], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for lane in range(LANES)
    ]
    told = [line for lane in lanes for line in lane.communicate(timeout=LIMIT_S)[0].splitlines()]
    now = {job["name"]: job for line in told if line.startswith("{") for job in [json.loads(line)]}

    assert sorted(now) == names
    assert [name for name, job in now.items() if job["wrong_certain"] and name not in NOT_OUR_WORD] == []
    for what in ("cause_right", "ranks_right", "line_right"):
        before = at_first_sight(batch, to)
        lost = [name for name, job in now.items() if before[name][what] and not job[what]]
        assert len(lost) <= CHANCE, (what, lost)
