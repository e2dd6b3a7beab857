"""What is written beside a job is readable by its owner only, whatever the umask."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from unhang.watch import private_files
from unhang.watch.run_folder import RunFolder
from unhang.watch.side_process import serve_metrics
from unhang.wire.documents.run_plan import RunPlan


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_log_is_private_and_grows(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    for _ in range(2):
        with private_files.open_log(path) as log:
            log.write(b"x")
    private_files.append(path, b"y")

    assert path.read_bytes() == b"xxy"
    assert mode(path) == 0o600


def test_so_is_the_log_of_the_process_that_serves_metrics(tmp_path: Path) -> None:
    (tmp_path / ".unhang").mkdir()
    process = serve_metrics(tmp_path, tmp_path, "no port")
    assert process is not None
    process.end()

    assert mode(tmp_path / ".unhang" / "metrics.log") == 0o600


def test_a_folder_that_was_removed_while_its_run_went_on_is_not_made_again(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run").path
    private_files.write(folder / "machine" / "memory.log", b"x")
    shutil.rmtree(folder)
    for name in ("verdict.json", "machine/memory.log", ".unhang/past/1/verdict.json"):
        with pytest.raises(FileNotFoundError):
            private_files.write(folder / name, b"x")

    assert not folder.exists()
    private_files.write(tmp_path / "other" / "verdict.json", b"x")  # that of no run may be new


def test_secrets_of_the_command_are_not_kept_and_what_to_run_on_a_stall_is_known_to_the_watcher(tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    command = ["python", "train.py", "--hub_token", "a-secret-word", "--lr", "3e-4"]
    told = "python webhook.py https://hooks.slack.com/services/T0/B0/a-secret-word"
    folder = RunFolder(RunFolder.create(tmp_path / "run").path, records)
    folder.write_plan(RunPlan(command=command, on_hang_exec=told))

    kept = json.loads(folder.plan_file.read_text())
    assert kept["command"] == ["python", "train.py", "--hub_token", "[removed]", "--lr", "3e-4"]
    assert "a-secret-word" not in folder.plan_file.read_text()
    assert (folder.read_plan().command, folder.read_plan().on_hang_exec) == (kept["command"], told)
