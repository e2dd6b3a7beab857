"""Where a job saves is read from its command, and what it saved is looked at without waiting for ever."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from unhang.cli.main import main
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.checkpoints.checkpoint import Checkpoint
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.watch.sampling.checkpoint_search import CheckpointSearch

HEADER = json.dumps({"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
LOG = """\
[rank2]: Traceback (most recent call last):
[rank2]:   File "/home/ml/train.py", line 131, in main
[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.71 GiB. GPU 2 has 79.11 GiB.
"""


def save(folder: Path, step: int, *, cut: int = 0) -> Path:
    path = folder / f"step-{step}.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    raw = len(HEADER).to_bytes(8, "little") + HEADER + b"1234"
    path.write_bytes(raw[: len(raw) - cut])
    os.utime(path, (step, step))
    return path


def test_the_command_says_where_the_job_saves(tmp_path: Path) -> None:
    saved = save(tmp_path / "out", 7)

    look = CheckpointSearch(command=["torchrun", "train.py", "--output_dir", "out"], cwd=str(tmp_path))

    found = look.found(30)
    assert found is not None
    assert [(one.path, one.whole, one.step) for one in found] == [(str(saved), True, 7)]


def test_so_does_a_configuration_file_it_names(tmp_path: Path) -> None:
    save(tmp_path / "runs", 9)
    (tmp_path / "train.yaml").write_text("output_dir: runs\n")

    look = CheckpointSearch(command=["llamafactory-cli", "train", "train.yaml"], cwd=str(tmp_path))

    assert [one.step for one in look.found(30) or ()] == [9]


def test_storage_that_does_not_answer_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "step-1").mkdir()
    os.mkfifo(tmp_path / "step-1" / ".metadata")  # to open it waits for a writer that never comes
    look = CheckpointSearch([tmp_path])
    process = look.process

    assert look.found(1.5) is None
    assert process is not None
    assert process.poll() is not None


def test_a_restart_takes_the_last_whole_one_and_keeps_away_from_torn_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.log").write_text(LOG)
    whole, torn = save(tmp_path / "ckpt", 100), save(tmp_path / "ckpt", 200, cut=2)
    looked = ["--checkpoints", str(tmp_path / "ckpt")]
    command = ["diagnose", str(tmp_path / "job.log"), *looked, *looked]  # twice: each is named once

    with pytest.raises(SystemExit) as left:
        main([*command, "--format", "json"])

    assert left.value.code == 1
    restart = json.loads(capsys.readouterr().out)["restart"]
    assert restart["last_complete_checkpoint"] == str(whole)
    assert restart["torn_checkpoints"] == [{"path": str(torn), "because": f"{torn.name} is cut off"}]
    with pytest.raises(SystemExit):
        main([*command, "--lang", "zh", "--no-color"])
    assert "不要从" in capsys.readouterr().out


def test_a_folder_that_is_not_there_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.log").write_text(LOG)

    with pytest.raises(SystemExit) as left:
        main(["diagnose", str(tmp_path / "job.log"), "--checkpoints", str(tmp_path / "no")])

    assert left.value.code == 2
    assert "does not exist" in capsys.readouterr().err


def test_of_several_whole_ones_the_newest_is_named(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(LOG)
    facts = build_facts(read_evidence([str(tmp_path / "job.log")]))
    checkpoints = tuple(Checkpoint(f"/c/{step}", "dcp", float(step), 1, step) for step in (3, 2, 1))

    restart = diagnose(replace(facts, checkpoints=checkpoints)).restart

    assert (restart.last_complete_checkpoint, restart.torn_checkpoints) == ("/c/3", ())
