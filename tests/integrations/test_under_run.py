"""Under ``unhang run`` the steps and the phases of each library arrive in the records, as the integration says them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.job, pytest.mark.timeout(300)]
HERE = Path(__file__).parent
TITAN = "unhang.integrations.torchtitan"
OVERRIDES = ["--override.imports", f"{TITAN}.steps,{TITAN}.saves,{TITAN}.evaluations"]


def launched(folder: Path, *words: str, ours: bool = True, **environment: str) -> str:
    """What a job of two ranks prints, under ``unhang run`` or alone."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *words]
    if ours:
        program = "from unhang.cli.main import main; main()"
        command = [sys.executable, "-c", program, "run", "--dir", str(folder / "run"), "--lang", "en", "--", *command]
    paths = [str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    own = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "DS_ACCELERATOR": "cpu", "NO_COLOR": "1"}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, **own, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **environment},
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("library", "steps", "phases"),
    [
        ("accelerate", 20, ("save", "loading")),
        pytest.param("transformers", 24, ("evaluation", "save", "logging"), marks=pytest.mark.live),
        pytest.param("loops", 2, (), marks=pytest.mark.live),
        pytest.param("lightning", 20, ("evaluation", "save"), marks=pytest.mark.live),
        pytest.param("deepspeed", 4, ("save", "loading"), marks=pytest.mark.live),
    ],
)
def test_steps_and_phases_arrive(library: str, steps: int, phases: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("torch" if library == "loops" else library)

    printed = launched(tmp_path, str(HERE / "under_run.py"), library, str(tmp_path / "out"))

    assert f"unhang: {steps} steps" in printed, printed
    told = printed.partition("marked phases: ")[2]
    assert [name for name in phases if name not in told] == [], printed


def losses(printed: str) -> list[str]:
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed)
    return re.findall(r"step: +(\d+ +loss: +[\d.]+ +grad_norm: +[\d.]+)", plain)


@pytest.fixture(scope="module")
def torchtitan(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a torchtitan whose configuration can be overridden; it asks for an older `datasets` than others."""
    folder = str(tmp_path_factory.mktemp("torchtitan"))
    packages = ["torchtitan==0.3.0", "torch_checkpointing==0.1.1", "spmd_types==0.2.3"]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *packages]
    subprocess.run(install, check=True, timeout=240)
    return folder


@pytest.mark.live
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="torchtitan imports triton")
def test_torchtitans_trainer_says_its_steps_and_trains_as_before(tmp_path: Path, torchtitan: str) -> None:
    job = [str(HERE / "titan_job.py"), "--module", "titan_job", "--config", "tiny", "--dump_folder"]

    path = {"PYTHONPATH": os.pathsep.join((str(HERE), torchtitan))}
    plain = launched(tmp_path, *job, str(tmp_path / "a"), ours=False, **path)
    guarded = launched(tmp_path, *job, str(tmp_path / "b"), *OVERRIDES, **path)
    background = [OVERRIDES[0], TITAN + '.steps={"background_logs": true}']
    odd = launched(tmp_path, *job, str(tmp_path / "c"), *background, ours=False, ODD_RANK="1", **path)

    assert len(losses(plain)) == 8, plain
    assert losses(plain) == losses(guarded), guarded
    assert "unhang: 4 steps" in guarded, guarded
    assert "save" in guarded.partition("marked phases: ")[2]
    assert "configuration of torchtitan['training']['gc_freq']: 50 on rank 0, 7 on rank 1" in odd
    assert losses(odd) == []


@pytest.mark.live
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="torchtitan imports triton")
def test_torchtitans_log_is_written_in_the_background(tmp_path: Path, torchtitan: str) -> None:
    path = {"PYTHONPATH": os.pathsep.join((str(HERE), torchtitan))}
    job = [str(HERE / "titan_job.py"), "--module", "titan_job", "--config", "tiny", "--dump_folder", str(tmp_path)]

    background = [OVERRIDES[0], TITAN + '.steps={"background_logs": true}']
    printed = launched(tmp_path, *job, *background, ours=False, **path)

    assert len(losses(printed)) == 8, printed
    assert sum(path.stat().st_size for path in tmp_path.rglob("events*")) > 1000
