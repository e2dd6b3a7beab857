"""A Ray job whose parts wait for each other, started without unhang: `unhang attach` names them, with their lines."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import unhang

pytestmark = [pytest.mark.job, pytest.mark.live, pytest.mark.timeout(300)]
JOB = Path(__file__).with_name("ray_job")
TRAINER = JOB / "openrlhf" / "trainer" / "ppo_trainer_async.py"
START_S, SETTLED_S = 120.0, 5.0


@pytest.fixture
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The driver, once both halves have begun."""
    pytest.importorskip("ray")
    session = tempfile.mkdtemp(prefix="r")  # Ray's sockets need a short path
    said = tmp_path / "said.txt"
    with said.open("wb") as output:
        driver = subprocess.Popen(
            [sys.executable, str(JOB / "train_async.py"), session, *request.param],
            stdout=output, stderr=subprocess.STDOUT, cwd=JOB, start_new_session=True,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    try:
        until = time.monotonic() + START_S
        while b"both halves began" not in said.read_bytes() and time.monotonic() < until and driver.poll() is None:
            time.sleep(0.2)
        assert b"both halves began" in said.read_bytes(), said.read_text("utf-8", "replace")
        time.sleep(SETTLED_S)
        yield driver
    finally:
        driver.send_signal(signal.SIGINT)
        try:
            driver.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(10)
        shutil.rmtree(session, ignore_errors=True)


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(TRAINER.read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize("driver", [()], indirect=True)
def test_parts_that_wait_for_each_other_are_named_with_their_lines(
    driver: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "seen"
    done = unhang("attach", str(driver.pid), "--dir", str(folder), "--format", "json")

    lead = json.loads(done.stdout)["findings"][0]
    assert lead["cause"] == "deadlock-order", done.stdout
    places = {lead["where"]["line"], lead["waiter_where"]["line"]}
    assert places == {line_of("self.rollout_queue.get(block=True)"), line_of("self.rollout_slots.get(block=True)")}
    again = json.loads(unhang("diagnose", str(folder), "--format", "json").stdout)["findings"][0]
    assert (again["cause"], again["where"]) == (lead["cause"], lead["where"])


@pytest.mark.parametrize("driver", [("goes",)], indirect=True)
def test_parts_that_take_turns_are_no_deadlock(driver: subprocess.Popen[bytes], tmp_path: Path) -> None:
    done = unhang("attach", str(driver.pid), "--dir", str(tmp_path / "seen"), "--format", "json")

    verdict = json.loads(done.stdout)
    assert "deadlock-order" not in [one["cause"] for one in verdict["findings"]], done.stdout
    assert verdict["status"] != "hang"
