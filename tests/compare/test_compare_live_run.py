"""A real run that becomes slower half-way is told so from its own folder, with nothing else recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import command

JOB = Path(__file__).with_name("slowing_job.py")
pytestmark = [pytest.mark.job, pytest.mark.live, pytest.mark.timeout(240)]


def test_the_line_that_takes_longer_is_found_in_the_run_folder(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["run", "--dir", str(tmp_path / "run"), "--", *launcher, str(JOB), "1200", "0.05"]
    ran = subprocess.run(
        [sys.executable, "-c", "from unhang.cli.main import main; main()", *words],
        capture_output=True,
        timeout=220,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]

    told = command.unhang("compare", tmp_path / "run", "--steps", "30:590", "--against", "620:1190", "--format", "json")

    found = json.loads(told.stdout)
    assert told.returncode == 1, told.stdout
    work = next(part for part in found["grew"] if part["kind"] == "own")
    assert (work["ranks"], work["where"]["function"]) == ([0], "write")
    assert Path(work["where"]["file"]).name == JOB.name
    assert "Rank 1 waits for rank 0".lower() in " ".join(found["because"]).lower()
    settings = json.loads((tmp_path / "run" / "settings.json").read_bytes())
    assert settings["versions"]["torch"]
    assert settings["program"]["path"].endswith(JOB.name)
