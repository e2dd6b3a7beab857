"""A real run: recorded at its end, or beside the history where the server is away, and no later than without it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.watch.signal_programs import RUN
from unhang.history.database import open_history
from unhang.history.place import HistoryPlace, history_place
from unhang.history.run import RunEnding
from unhang.history.unsent import waiting
from unhang.watch import side_process
from unhang.watch.reporting import announcements
from unhang.watch.side_process import Recorded

pytestmark = [pytest.mark.job, pytest.mark.timeout(200)]
JOB = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="file://{store}", rank=0, world_size=1)
for _ in range(20): dist.all_reduce(torch.ones(3)); time.sleep(0.1)
dist.destroy_process_group()
"""
AWAY = "postgresql://me:hunter2-hunter2@/db?host=/nowhere"


def run(place: HistoryPlace, tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    code = JOB.format(store=tmp_path / "store")
    environment = {**os.environ, "UNHANG_HISTORY": place.url, "XDG_STATE_HOME": str(place.folder.parent)}
    words = [*RUN, "--dir", str(tmp_path / f"run-{time.time_ns()}"), *options, "--", sys.executable, "-c", code]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=150, check=False)
    (tmp_path / "store").unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
    return done


def _recorded(place: HistoryPlace) -> set[tuple[str, int | None, int]]:
    with open_history(place, to_write=True) as history:
        return {(one.outcome, one.world_size, len(one.hosts)) for one in history.runs()}


def test_a_run_is_in_the_history_or_follows(named: HistoryPlace, tmp_path: Path) -> None:
    """On a busy machine it may be late: then it comes with the next one, or the command left before it was told."""
    for _ in range(3):
        said = run(named, tmp_path).stderr
        waits = waiting(named)
        assert waits or "follows with the next run" not in said
        if waits or _recorded(named):
            break

    side_process.add_to_history(RunEnding(str(tmp_path), failed=True, ended_s=time.time()), 60)
    assert _recorded(named) == {("good", 1, 1), ("failed", None, 0)}
    assert waiting(named) == []


def test_where_the_server_is_away_nothing_is_lost(tmp_path: Path) -> None:
    place, away = (history_place({"XDG_STATE_HOME": str(tmp_path)}, url) for url in ("", AWAY))
    said = run(place, tmp_path, "--history", AWAY).stderr

    assert len(waiting(away)) == 1
    everything = said + "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert "gloo" in everything
    assert "hunter2" not in everything


def test_a_run_that_is_not_in_the_history_is_said_so() -> None:
    """In a test of a real run the command may leave before its last line, where the machine is busy."""
    said = [announcements.not_recorded_line(each) for each in (Recorded.KEPT, Recorded.BESIDE, Recorded.LOST)]

    assert said[0] == ""
    assert "was saved and follows with the next run" in said[1]
    assert "this run is not in the history" in said[2]


def test_an_address_that_is_none_is_said_before_the_job_starts(tmp_path: Path) -> None:
    words = [
        *RUN,
        "--dir",
        str(tmp_path / "run"),
        "--history",
        "mysql://u:hunter2@h/d",
        "--",
        "touch",
        str(tmp_path / "x"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert "the history is no address of a PostgreSQL database" in done.stderr
    assert "hunter2" not in done.stderr
    assert not (tmp_path / "x").exists()
