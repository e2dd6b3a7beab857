"""``settings.json`` tells with what a run was started, keeps no secret, and nobody waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unhang.findings import Source
from unhang.watch.job.job_ranks import JobRanks
from unhang.watch.launch import run_settings
from unhang.watch.launch.run_settings import SettingsCollector, collect_settings
from unhang.watch.run_folder import RunFolder
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.documents.run_settings import RunSettings, read_run_settings

RUN = [sys.executable, "-c", "from unhang.cli.main import main; main()", "run"]
SECRET = "hf_" + "a1B2" * 8


def gathered(folder: Path, command: list[str], monkeypatch: pytest.MonkeyPatch, **environment: str) -> RunSettings:
    """What a watcher would write for ``command``, started in ``folder`` with ``environment``."""
    monkeypatch.chdir(folder)
    sleeper = subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], **environment})
    try:
        time.sleep(0.05)  # until it is sleep, and not yet another copy of us
        settings = collect_settings(RunPlan(command=command, job_pid=sleeper.pid), {}, None)
    finally:
        sleeper.kill()
        sleeper.wait()
    found = read_run_settings(settings.json(), source=Source("settings.json"))
    assert isinstance(found, RunSettings), found
    return found


def test_command_environment_and_configuration_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2}, "train_batch_size": 64}')
    (tmp_path / "train.py").write_text("print('hello')\n")
    command = ["torchrun", "--nproc-per-node", "4", "train.py", "--deepspeed", "ds.json"]

    found = gathered(tmp_path, command, monkeypatch, NCCL_DEBUG="INFO", RANK="3", HOME="/root", MASTER_PORT="29500")

    assert found.environment["NCCL_DEBUG"] == "INFO"
    assert not {"RANK", "HOME", "MASTER_PORT"} & set(found.environment)
    assert found.world_size == 4
    (file,) = found.files
    assert (file.kind, file.keys["zero_optimization.stage"], len(file.sha256)) == ("deepspeed", "2", 64)
    assert found.program["path"] == "train.py"
    assert found.nodes[0].name
    assert found.versions["python"]


def test_no_secret_is_kept_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.yaml").write_text(
        f"hub_token: {SECRET}\nurl: https://me:{SECRET}@host/x\nnested:\n  api_key: {SECRET}\n"
    )
    command = ["python", "train.py", "--config", "c.yaml", f"--token={SECRET}", "--hub", f"https://u:{SECRET}@h/"]
    command += ["--wandb-api-key", "fedcba9876543210"]

    found = gathered(
        tmp_path, command, monkeypatch, HF_TOKEN=SECRET, WANDB_API_KEY="0123456789abcdef", NCCL_DEBUG="INFO"
    )

    text = str(found)
    assert SECRET not in text
    assert "0123456789abcdef" not in text
    assert "fedcba9876543210" not in text
    assert "INFO" in text


def test_the_commit_is_read_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git" / "refs" / "heads" / "main").write_text("c0ffee" * 6 + "\n")
    (tmp_path / "train.py").write_text("")

    assert gathered(tmp_path, ["python", "train.py"], monkeypatch).program["commit"] == "c0ffee" * 6


def test_a_run_leaves_its_settings_private(tmp_path: Path) -> None:
    path = tmp_path / "run" / "settings.json"
    words = ["sh", "-c", f"for i in $(seq 800); do [ -e {path} ] && break; sleep 0.1; done"]
    command = [*RUN, "--dir", str(tmp_path / "run"), "--", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=100, env={**os.environ, "NCCL_IB_DISABLE": "1"})

    found = read_run_settings(path.read_bytes(), source=Source("settings.json"))

    assert path.stat().st_mode & 0o77 == 0
    assert isinstance(found, RunSettings)
    assert found.command == tuple(words)
    assert found.environment["NCCL_IB_DISABLE"] == "1"


def test_a_watcher_that_leaves_does_not_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for its limit, here longer than a test may take."""
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")  # to open it waits for a writer that never comes
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_settings, "LIMIT_S", 600.0)
    folder = RunFolder(tmp_path / "run")
    child = SettingsCollector(folder, RunPlan(command=["python", "train.py"], job_pid=os.getpid()))
    child.tick(JobRanks(tmp_path))
    assert child.child is not None

    child.end()

    assert child.child is None


def test_a_short_command_leaves_no_half_of_it(tmp_path: Path) -> None:
    subprocess.run([*RUN, "--dir", str(tmp_path / "run"), "--", "true"], check=True, capture_output=True, timeout=100)

    assert not list((tmp_path / "run").glob(".settings*"))
