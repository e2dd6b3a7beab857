"""A case that was run leaves a run folder that is complete, and no process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.waiting import wait_for
from unhang.errors import UnhangError
from unhang.watch.job import job_processes
from unhang.wire.documents.bundle import BundleManifest, rank_of_file, read_manifest
from unhang_lab.lab_case import find_case
from unhang_lab.run_case import run_case

MARK_NAME = "UNHANG_TEST_MARK"
pytestmark = pytest.mark.job


def test_a_case_leaves_every_kind_of_evidence_and_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of two ranks, one of them stopped: the hardest to look at and to end."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK_NAME, mark)

    folder = run_case(find_case("stopped"), tmp_path / "job", ranks=2)

    assert _processes_with(mark) == set()
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files >= {"bundle.json", "verdict.json", "run.json", "stacks/rank_0.txt", "stacks/rank_1.txt"}
    manifest = read_manifest(folder / "bundle.json", source="bundle.json")
    assert isinstance(manifest, BundleManifest)
    assert [(one.rank, one.state, one.exit_code) for one in manifest.processes] == [(0, "S", None), (1, "T", None)]
    assert manifest.stalled_since_s is not None
    assert rank_of_file(manifest, "logs/attempt_0/1/stderr.log") == 1


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(UnhangError, match="is not empty"):
        run_case(find_case("healthy"), tmp_path)

    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ending_the_lab_ends_the_job(number: signal.Signals, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    command = [sys.executable, "-c", "from unhang.cli.main import main; main()", "lab", "run", "healthy-running"]
    command += ["--ranks", "2", "--out", str(tmp_path / "b")]
    recorder = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, MARK_NAME: mark}
    )
    try:
        wait_for(lambda: len(_processes_with(mark)) >= 4)
        recorder.send_signal(number)
        _, said = recorder.communicate(timeout=60)
    finally:
        recorder.kill()

    assert recorder.returncode == 130, said
    assert b"Traceback" not in said
    assert _processes_with(mark) == set()


def test_without_torch_the_lab_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        f"sys.argv = ['unhang', 'lab', 'run', 'healthy', '--out', {str(tmp_path / 'b')!r}]\n"
        "from unhang.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert "needs PyTorch" in done.stderr
    assert "pip install torch" in done.stderr
    assert "Traceback" not in done.stderr


def _processes_with(mark: str) -> set[int]:
    """Live processes that were started with this mark in their environment: ours and its job's."""
    return set(job_processes.processes_with_mark(f"{MARK_NAME}={mark}"))
