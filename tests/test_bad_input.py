"""Whatever lies there: one clear sentence and exit code 2, or a verdict that says what was not read. Never a trace."""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests import leavings
from tests.command import unhang


def refused(run: subprocess.CompletedProcess[str]) -> str:
    """The sentence of a refusal."""
    assert run.returncode == 2, (run.stdout, run.stderr)
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    assert "internal error" not in run.stderr
    assert len(run.stderr.splitlines()) <= 2
    return run.stderr


def verdict(run: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The verdict of a run that gave one."""
    assert run.returncode in (0, 1) or run.stdout, run.stderr
    assert "Traceback" not in run.stderr
    return json.loads(run.stdout)


def unread(said: dict[str, Any]) -> str:
    return " ".join(f"{item['what']} {item['because']}" for item in said["not_checked"])


def test_an_empty_folder(tmp_path: Path) -> None:
    assert "no files" in refused(unhang("diagnose", tmp_path))


@pytest.mark.parametrize("verb", ["diagnose", "compare", "view", "history"])
def test_an_empty_argument_is_not_this_folder(verb: str) -> None:
    assert f"unhang {verb} got an empty argument" in refused(unhang(verb, ""))


def test_a_folder_of_rubbish(tmp_path: Path) -> None:
    noise = random.Random(7)
    for index in range(4):
        (tmp_path / f"rubbish{index}").write_bytes(noise.randbytes(5_000))

    assert "binary" in refused(unhang("diagnose", tmp_path))


@pytest.mark.parametrize("seed", range(6))
def test_rubbish_behind_a_known_beginning(tmp_path: Path, seed: int) -> None:
    noise = random.Random(seed).randbytes(20_000)
    beginnings = (
        b"\x80\x02}q\x00(X\x07\x00\x00\x00version",
        b"\x1f\x8b\x08\x00",
        b"PK\x03\x04",
        b"BZh9",
        b'{"version": "2.10", ',
    )
    for index, beginning in enumerate(beginnings):
        (tmp_path / f"file{index}").write_bytes(beginning + noise)

    refused(unhang("diagnose", tmp_path))


@pytest.mark.skipif(
    os.geteuid() == 0, reason="root may read everything; run as another user to test refused permission"
)
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_text(leavings.watchdog_log(0))
    path.chmod(0)

    assert "permission" in refused(unhang("diagnose", path))


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "job.log").symlink_to(tmp_path / "gone")

    assert "leads nowhere" in refused(unhang("diagnose", tmp_path))


def test_a_named_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trace.pipe")

    assert "named pipe" in refused(unhang("diagnose", tmp_path))


def test_a_torn_dump_still_counts_and_is_named(tmp_path: Path) -> None:
    paths = leavings.write_dumps(tmp_path)
    whole = paths[1].read_bytes()
    paths[1].write_bytes(whole[: len(whole) // 2])

    said = verdict(unhang("diagnose", tmp_path, "--format", "json"))

    assert said["findings"][0]["ranks"] == [3]
    assert "nccl_trace_rank_1" in json.dumps(said)


class Hostile:
    """A pickle that would leave a mark if anything in it ran."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.mark}",)


def test_a_hostile_dump_runs_nothing_and_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    leavings.write_dumps(folder)
    hostile = {**leavings.dump(), "extra": Hostile(tmp_path / "ran")}
    (folder / "nccl_trace_rank_2").write_bytes(pickle.dumps(hostile, protocol=2))

    said = verdict(unhang("diagnose", folder, "--format", "json"))

    assert not (tmp_path / "ran").exists()
    assert "nccl_trace_rank_2" in json.dumps(said)


def test_a_hostile_pickle_alone(tmp_path: Path) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(Hostile(tmp_path / "ran"), protocol=2))

    refused(unhang("diagnose", tmp_path / "nccl_trace_rank_0"))

    assert not (tmp_path / "ran").exists()


def test_a_zip_bomb_stays_small(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("nccl_trace_rank_0", "w", force_zip64=True) as member,
    ):
        member.write(leavings.dump_bytes()[:-200])
        for _ in range(400):
            member.write(bytes(1 << 20))

    run = limited(["diagnose", tmp_path / "bomb.zip", "--format", "json"], memory_mb=1_500)

    assert "Traceback" not in run.stderr
    assert "MemoryError" not in run.stderr
    assert run.returncode in (0, 1, 2, 3)


def test_a_member_that_leaves_its_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("../../.bashrc", "step 1\n")

    assert "outside" in refused(unhang("diagnose", tmp_path / "a.zip"))


def limited(words: list[Any], *, memory_mb: int) -> subprocess.CompletedProcess[str]:
    """The command with a hard limit on its address space."""
    return subprocess.run(
        [sys.executable, "-c", "from unhang.cli.main import main; main()", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20)),
    )


def test_a_log_far_larger_than_memory_streams(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    with path.open("wb") as file:
        file.write(b"step 1 loss 2.0\n" * 100)
        file.seek(2_000_000_000)  # a hole: the file is large, the disk is not
        file.write(b"\n" + leavings.watchdog_log(0).encode())

    run = limited(["diagnose", path, "--format", "json"], memory_mb=1_000)

    assert json.loads(run.stdout)["status"] == "hang", run.stderr


def test_dumps_without_a_single_entry_say_why(tmp_path: Path) -> None:
    for rank in range(2):
        empty = {**leavings.dump(ranks=2), "entries": [], "pg_status": {}, "pg_config": {}}
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(empty, protocol=2))

    run = unhang("diagnose", tmp_path, "--format", "json")

    assert "Traceback" not in run.stderr
    said = verdict(run)
    assert all(finding["certainty"] != "certain" for finding in said["findings"])
    assert said["not_checked"]


def test_a_job_of_no_ranks(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text('{"schema": "unhang.bundle/1", "world_size": 0, "processes": []}')

    run = unhang("diagnose", tmp_path, "--format", "json")

    assert "Traceback" not in run.stderr
    assert run.returncode in (0, 1, 2, 3)
    if run.returncode != 2:
        assert all(finding["certainty"] != "certain" for finding in verdict(run)["findings"])


def test_two_jobs_in_one_folder_are_told_apart(tmp_path: Path) -> None:
    leavings.write_dumps(tmp_path / "first", ranks=4, laggard=3)
    leavings.write_dumps(tmp_path / "second", ranks=2, laggard=1)

    run = unhang("diagnose", tmp_path, "--format", "json")

    said = (
        verdict(run) if run.returncode != 2 else {"not_checked": [{"what": "", "because": run.stderr}], "findings": []}
    )
    assert "job" in unread(said)
    assert all(finding["certainty"] != "certain" for finding in said["findings"])


def test_missing_ranks_are_listed_and_cap_certainty(tmp_path: Path) -> None:
    for path in leavings.write_dumps(tmp_path, ranks=8, laggard=None)[4:]:
        path.unlink()

    said = verdict(unhang("diagnose", tmp_path, "--format", "json"))

    assert said["ranks_missing"] == [4, 5, 6, 7]
    assert all(finding["certainty"] != "certain" for finding in said["findings"])
