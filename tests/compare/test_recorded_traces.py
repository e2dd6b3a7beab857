"""Traces that the installed torch.profiler has just written itself, plain and packed, of two real ranks."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import command

JOB = Path(__file__).with_name("recorded_job.py")
pytestmark = [pytest.mark.job, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("recorded")
    good, slow = folder / "good", folder / "slow"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, JOB, str(port), good, "0.001", slow, "0.06"]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    return good, slow


def test_what_grew_is_found_in_traces_that_torch_wrote(recorded: tuple[Path, Path]) -> None:
    told = command.unhang("compare", *recorded, "--format", "json")

    found = json.loads(told.stdout)
    assert told.returncode == 1, told.stdout + told.stderr
    assert found["unread"] == []
    assert "add_scalar (recorded_job.py:" in found["summary"]
    grew = [part for part in found["grew"] if part["on"] == "main"]
    work = next(part for part in grew if part["kind"] == "own")
    wait = next(part for part in grew if part["kind"] == "waiting")
    assert (work["ranks"], work["where"]["function"], work["called"]) == ([0], "add_scalar", "built-in sleep")
    assert work["grew_s"] == pytest.approx(0.059, rel=0.3)
    assert 1 in wait["ranks"]  # on a busy machine rank 0 waits longer, too
    assert (wait["phase"], wait["where"]["function"]) == ("communication", "step")


def test_ranks_of_one_trace(recorded: tuple[Path, Path]) -> None:
    told = command.unhang("compare", recorded[1], "--ranks", "0", "--against-ranks", "1")

    assert told.returncode == 1
    assert told.stdout.startswith("DIFFERENT  Rank 0 spends")


def test_halves_of_one_trace_do_not_differ_in_the_writer(recorded: tuple[Path, Path]) -> None:
    told = command.unhang("compare", recorded[1], "--steps", "2:7", "--against", "8:13", "--format", "json")

    found = json.loads(told.stdout)
    assert not [part for part in found["grew"] if part["where"] and part["where"]["function"] == "add_scalar"]
