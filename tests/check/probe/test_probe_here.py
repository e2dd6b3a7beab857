"""The probe and the search on this machine alone, for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from tests.command import unhang
from tests.ports import free_port
from unhang.watch.job import job_processes

pytestmark = [pytest.mark.job, pytest.mark.timeout(200)]
LIMIT_S = 150.0


def test_a_healthy_machine_in_seconds_and_without_findings(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("")
    command = ("torchrun", "--nproc-per-node", "3", "--nnodes", "2", "t.py")

    run = unhang("check", "--only", "probe", "--format", "json", "--", *command, folder=tmp_path, limit_s=LIMIT_S)

    verdict = json.loads(run.stdout)
    assert (run.returncode, verdict["findings"], verdict["status"]) == (0, [], "healthy")
    assert any("3 ranks over gloo finished every step" in item["what"] for item in verdict["checked"])
    assert any("3 pairs reach" in item["what"] for item in verdict["checked"])
    assert any("all 6 ranks" in item["what"] for item in verdict["not_checked"])


@pytest.mark.live
def test_where_everything_works_bisect_recommends_nothing() -> None:
    run = unhang("bisect", limit_s=LIMIT_S)

    assert run.returncode == 0, run.stderr
    assert "no setting is needed" in " ".join(run.stdout.split())
    assert "Change" not in run.stdout


def test_an_interface_that_does_not_exist_is_found_and_replaced() -> None:
    mark = f"UNHANG_TEST_MARK={time.time_ns()}"
    name, _, value = mark.partition("=")

    run = unhang(
        "bisect", "--format", "json", environment={"GLOO_SOCKET_IFNAME": "nosuch0", name: value}, limit_s=LIMIT_S
    )

    verdict = json.loads(run.stdout)
    schema = Path(__file__).parents[3] / "docs" / "verdict.schema.json"
    jsonschema.validate(verdict, json.loads(schema.read_text(encoding="utf-8")))
    (finding,) = verdict["findings"]
    assert (run.returncode, finding["severity"], finding["check"]) == (1, "stops", "probe")
    remedy = finding["remedies"][0]  # on a crowded machine either of the two may come out much faster
    assert remedy["unset"] == ["GLOO_SOCKET_IFNAME"] or remedy["set"] == {"GLOO_SOCKET_IFNAME": "lo"}
    assert job_processes.processes_with_mark(mark) == ()


@pytest.mark.parametrize(
    ("words", "number"),
    [
        pytest.param(("bisect",), signal.SIGINT, id="bisect-ctrl-c", marks=pytest.mark.live),
        pytest.param(("check", "--only", "probe"), signal.SIGINT, id="check-ctrl-c"),
        pytest.param(("check", "--only", "probe"), signal.SIGKILL, id="check-killed"),
    ],
)
def test_nothing_is_left_when_it_is_ended(words: tuple[str, ...], number: signal.Signals) -> None:
    mark = f"UNHANG_TEST_MARK={time.time_ns()}"
    name, _, value = mark.partition("=")
    # Nobody comes to this meeting: it would wait for half a minute.
    job = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = subprocess.Popen(
        [sys.executable, "-c", "from unhang.cli.main import main; main()", *words],
        env={**os.environ, **job, name: value},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 80
        while len(job_processes.processes_with_mark(mark)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(job_processes.processes_with_mark(mark)) >= 2

        started.send_signal(number)
        started.wait(timeout=50)
    finally:
        started.kill()

    deadline = time.monotonic() + 50
    while job_processes.processes_with_mark(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = job_processes.processes_with_mark(mark)
    assert [Path(f"/proc/{pid}/{what}").read_text() for pid in left for what in ("cmdline", "stat", "wchan")] == []
