"""A recorded bundle is complete, private, and leaves no process behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.waiting import wait_for
from unhang.errors import UnhangError
from unhang.watch.job import job_processes
from unhang.wire.documents.bundle import BundleManifest, rank_of_file, read_manifest, source_path_of_file
from unhang_lab.catalog import find_case
from unhang_lab.run_case import run_case

MARK_NAME = "UNHANG_TEST_MARK"
pytestmark = pytest.mark.job


@pytest.fixture(scope="module")
def stopped_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of two ranks, one of them stopped: the hardest to look at and to end."""
    mark = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK_NAME, mark)
        bundle = run_case(find_case("stopped"), tmp_path_factory.mktemp("run") / "job", ranks=2)
    assert _processes_with(mark) == set()
    return bundle


def test_a_bundle_holds_every_kind_of_evidence(stopped_bundle: Path) -> None:
    files = {str(path.relative_to(stopped_bundle)) for path in stopped_bundle.rglob("*") if path.is_file()}

    assert files >= {
        "bundle.json",
        "dumps/rank_0",
        "stacks/rank_0.1.txt",
        "stacks/rank_0.txt",
        "stacks/rank_1.txt",
        "logs/attempt_0/0/stdout.log",
        "logs/attempt_0/1/stderr.log",
        "logs/launcher.log",
        "source/train.py",
    }
    assert "dumps/rank_1" not in files  # a stopped rank cannot answer
    written = {name for name in files if (stopped_bundle / name).stat().st_size}
    assert {*json.loads((stopped_bundle / "bundle.json").read_bytes())["files"]} == written - {"bundle.json"}


def test_a_bundle_is_for_its_owner_only(stopped_bundle: Path) -> None:
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [stopped_bundle, *stopped_bundle.rglob("*")]}

    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}


def test_our_own_reader_reads_the_manifest(stopped_bundle: Path) -> None:
    manifest = read_manifest(stopped_bundle / "bundle.json", source="bundle.json")

    assert isinstance(manifest, BundleManifest)
    assert [(p.rank, p.state, p.exit_code, p.killed_by_us) for p in manifest.processes] == [
        (0, "S", None, True),
        (1, "T", None, True),
    ]
    assert manifest.stalled_since_s is not None
    assert manifest.stalled_since_s <= (manifest.taken_s or 0)
    assert rank_of_file(manifest, "logs/attempt_0/1/stderr.log") == 1


def test_frames_and_kept_source_agree(stopped_bundle: Path) -> None:
    manifest = read_manifest(stopped_bundle / "bundle.json", source="bundle.json")
    assert isinstance(manifest, BundleManifest)
    path = source_path_of_file(manifest, "source/train.py")

    assert path is not None
    assert f"({path}:" in (stopped_bundle / "stacks" / "rank_0.txt").read_text()


def test_the_recorder_s_own_thread_is_not_in_the_stacks(stopped_bundle: Path) -> None:
    assert "unhang-recorder" not in (stopped_bundle / "stacks" / "rank_0.txt").read_text()


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(UnhangError, match="already holds something"):
        run_case(find_case("healthy"), tmp_path)

    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ending_the_recorder_ends_the_job(number: signal.Signals, tmp_path: Path) -> None:
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
    """Live processes that were started with this mark in their environment: the recorder's and its job's."""
    return set(job_processes.processes_with_mark(f"{MARK_NAME}={mark}"))


def test_json_of_the_manifest_names_its_schema(stopped_bundle: Path) -> None:
    assert json.loads((stopped_bundle / "bundle.json").read_text())["schema"] == "unhang.bundle/1"
