"""A dry run: real programs up to their first step, what it says about their ranks, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.command import unhang
from tests.ports import free_port
from unhang.check.judge import judge
from unhang.check.sameness.sameness import DryRun
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.watch.launch.dry_run import dry_run
from unhang_lab import cases

SPLIT = Path(next(iter(cases.__path__))) / "split_without_seed.py"
TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)
{before}
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
data = TensorDataset(torch.arange(4.0 * {examples}).reshape(-1, 4))
loader = DataLoader(data, batch_size=2, {sampler})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (batch,) in loader:
    model(batch).sum().backward()
    optimizer.step()
    open(f"stepped-{{rank}}", "w").close()
torch.save(model.state_dict(), f"model-{{rank}}.pt")
"""
SHARED = {"before": "", "examples": "16", "sampler": "sampler=DistributedSampler(data)"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs write where they are started."""
    monkeypatch.chdir(tmp_path)


def torchrun(script: Path, ranks: int = 2) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), str(script)]


def written(folder: Path, **parts: str) -> Path:
    script = folder / "train.py"
    script.write_text(TRAIN.format(**{**SHARED, **parts}))
    return script


def answer(folder: Path, command: list[str], *words: str) -> dict[str, Any]:
    ran = unhang(
        "check", "--only", "program", "--dry-run", *words, "--format", "json", "--", *command,
        folder=folder, environment={"OMP_NUM_THREADS": "1"}, limit_s=150,
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stderr
    return json.loads(ran.stdout)


def left_behind(mark: str) -> list[str]:
    found = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if mark in line and "unhang check" not in line]


def judged(run: DryRun) -> dict[str, Any]:
    verdict = judge([NodeInspection("h1", results={DryRun: InspectionResult(run)})], ["sameness"])
    return {finding.subject: finding for finding in verdict.findings}


@pytest.mark.job
def test_a_split_without_a_seed_is_caught_before_training(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(SPLIT.read_bytes())

    verdict = answer(tmp_path, torchrun(Path("train.py")))

    uneven = next(f for f in verdict["findings"] if f["check"] == "sameness" and f["cause"] == "uneven-data")
    assert uneven["severity"] == "stops"
    assert uneven["where"]["file"] == "train.py"
    assert "random.shuffle" in SPLIT.read_text().splitlines()[uneven["where"]["line"] - 1]
    assert len(uneven["ranks"]) == 1
    assert any("batches: " in line for line in uneven["because"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


@pytest.mark.job
@pytest.mark.live
def test_a_sound_program_is_ended_before_its_step_and_has_no_finding(tmp_path: Path) -> None:
    script = written(tmp_path)

    run = dry_run(torchrun(script), 120, {**os.environ, "OMP_NUM_THREADS": "1"})

    assert (run.ended, run.code, [start.stage for start in run.ranks]) == ("steps", 0, ["step", "step"])
    assert [start.loaders[0].steps for start in run.ranks] == [4, 4]
    assert run.ranks[0].loaders[0].cut_by_rank
    assert {start.parameters.kind for start in run.ranks if start.parameters} == {"ddp"}
    assert [finding.severity.value for finding in judged(run).values()] == ["note"]  # one seed: dropout is alike
    assert not list(tmp_path.glob("stepped-*")) + list(tmp_path.glob("model-*"))
    assert left_behind(str(script)) == []


@pytest.mark.job
@pytest.mark.live
def test_other_data_on_one_rank_is_seen_where_the_number_of_batches_is_the_same(tmp_path: Path) -> None:
    script = written(tmp_path, before="torch.manual_seed(rank)", examples="(16 - rank)")

    found = judged(dry_run(torchrun(script), 120))

    (finding,) = found.values()
    assert finding.subject.endswith("train.py:11")
    assert finding.severity.value == "stops"
    assert finding.certainty.value == "possible"
    assert "16" in str(finding.because[0])
    assert "15" in str(finding.because[0])


@pytest.mark.job
@pytest.mark.live
def test_a_rank_without_a_batch_is_named_at_once(tmp_path: Path) -> None:
    script = written(tmp_path, examples="(16 * rank)", sampler="")

    found = judged(dry_run(torchrun(script), 3600))  # who waited for the limit would wait longer than a test may

    assert any(finding.ranks == (0,) for finding in found.values()), found
    assert left_behind(str(script)) == []


@pytest.mark.job
def test_a_program_that_fails_is_a_finding_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise ValueError('no such data')\n")

    (found,) = judged(dry_run([sys.executable, str(tmp_path / "train.py")], 60)).values()

    assert found.certainty.value == "certain"
    assert "ValueError: no such data" in str(found.because[0])


@pytest.mark.job
@pytest.mark.live
def test_a_rank_that_does_other_work_first_is_named_at_the_limit(tmp_path: Path) -> None:
    script = written(tmp_path, sampler="sampler=[time.sleep(984 * rank)] and DistributedSampler(data)")

    run = dry_run(torchrun(script), 40)

    assert [start.rank for start in run.ranks] == [0]
    assert "rank 1 had not started" in str(run.because)
    assert left_behind(str(script)) == []


@pytest.mark.job
def test_at_the_limit_everything_is_ended(tmp_path: Path) -> None:
    child = ["sleep", f"987.{os.getpid()}"]  # nobody else's
    (tmp_path / "train.py").write_text(
        f"import subprocess, time\nsubprocess.Popen({child}, start_new_session=True)\ntime.sleep(987)\n"
    )

    run = dry_run([sys.executable, str(tmp_path / "train.py")], 2)

    assert run.ended == "limit"
    assert left_behind(" ".join(child)) == []
    assert left_behind(str(tmp_path / "train.py")) == []


@pytest.mark.job
@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_too(tmp_path: Path, number: int) -> None:
    (tmp_path / "train.py").write_text("import time\nopen('began', 'w').close()\ntime.sleep(986)\n")
    code = "from unhang.cli.main import main; main()"
    words = ["check", "--dry-run", "--only", "sameness", "--", sys.executable, str(tmp_path / "train.py")]
    with subprocess.Popen([sys.executable, "-c", code, *words], cwd=tmp_path, stderr=subprocess.DEVNULL) as check:
        deadline = time.monotonic() + 60
        while not (tmp_path / "began").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        check.send_signal(number)
        code_of_end = check.wait(60)

    assert code_of_end in (128 + signal.SIGTERM, 130)
    assert left_behind(str(tmp_path / "train.py")) == []


@pytest.mark.job
@pytest.mark.live
def test_ranks_started_by_a_launcher_around_us_are_compared(tmp_path: Path) -> None:
    """As ``srun unhang check --dry-run -- python train.py``: one of us a rank."""
    script = written(tmp_path, before="import random; extra = 8 * rank", examples="(16 + extra)", sampler="")
    around = tmp_path / "unhang"
    around.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from unhang.cli.main import main; main()' \"$@\"\n")
    around.chmod(0o755)
    port = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    words = ["check", "--dry-run", "--only", "sameness", "--format", "json", "--dir", str(tmp_path / "meet")]

    tasks = [
        subprocess.Popen(
            [str(around), *words, "--", sys.executable, str(script)],
            env={**os.environ, **port, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            cwd=tmp_path,
        )
        for rank in range(2)
    ]
    said = [task.communicate(timeout=150)[0] for task in tasks]

    verdict = json.loads(said[0])
    assert said[1] == b""
    assert next(found["ranks"] for found in verdict["findings"] if found["cause"] == "uneven-data") == [0]
    assert list((tmp_path / "meet").iterdir()) == []
