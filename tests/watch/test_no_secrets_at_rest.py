"""A job that says, sets, raises and is written with secrets of every kind leaves none in any file nor verdict."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import unhang
from tests.secrets.secret_kinds import KINDS, Shown, filled, kinds_of_detectors
from unhang.watch.launch.masked_log import MaskedLog

JOB = """
import json, os, sys, threading, time
import torch, torch.distributed as dist
import unhang
{hard_coded}
texts = json.load(open(os.environ["TEXTS"]))
dist.init_process_group("gloo")
rank, shared = dist.get_rank(), torch.zeros(1)

def fall(text):
    raise RuntimeError(text)

for number, text in enumerate(texts):
    if number % 2 == rank:
        print(text, flush=True)
        print(text, file=sys.stderr, flush=True)
    else:
        thread = threading.Thread(target=fall, args=(text,))
        thread.start()
        thread.join()
for _ in range(20):
    dist.all_reduce(shared)
    unhang.step()
if rank == 1:
    with unhang.phase("load " + texts[0]):
        fall(" and ".join(texts[:4]))
dist.all_reduce(shared)
"""
RUN = [sys.executable, "-c", "from unhang.cli.main import main; main()", "run"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


@pytest.fixture(scope="module")
def kinds() -> list[Shown]:
    chance = random.Random(17)
    return [filled(kind, template, chance) for kind, template in {**KINDS, **kinds_of_detectors()}.items()]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, kinds: list[Shown]) -> Path:
    """A folder with ``run`` (of a job that fell), and ``seen``: what the user saw of it."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "texts.json").write_text(json.dumps([shown.text for shown in kinds]))
    source = "\n".join(f"key_{number} = {shown.text!r}" for number, shown in enumerate(kinds))
    (folder / "job.py").write_text(JOB.format(hard_coded=source))
    words = [word for shown in kinds[:40] for word in ("--note", shown.text)]
    done = subprocess.run(
        [*RUN, "--capture", "--dir", str(folder / "run"), "--", *TORCHRUN, "job.py", *words],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("UNHANG")},
            **{f"TORCH_EXTRA_{number}": shown.text for number, shown in enumerate(kinds[:40])},
            "TEXTS": str(folder / "texts.json"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_DATA_HOME": str(folder / "state"),
        },
        capture_output=True,
        timeout=240,
        check=False,
    )
    (folder / "seen").write_bytes(done.stdout + done.stderr)
    return folder


def left_in(content: bytes, kinds: list[Shown]) -> set[str]:
    """The kinds of which a secret stands in ``content``, also as JSON and Python write it."""
    text = content.decode("utf-8", "replace")
    plain = text.replace("\\\\", "\\").replace("\\/", "/")
    return {shown.kind for shown in kinds if any(one in text or one in plain for one in shown.secrets)}


def files_of(folder: Path) -> Iterator[Path]:
    yield from (path for top in ("run", "state") for path in sorted((folder / top).rglob("*")) if path.is_file())


@pytest.mark.job
@pytest.mark.timeout(300)
def test_no_file_of_the_run_holds_a_secret(ran: Path, kinds: list[Shown]) -> None:
    found = {str(path.relative_to(ran)): left_in(path.read_bytes(), kinds) for path in files_of(ran)}
    left = set().union(*found.values())

    assert {"run/crash/rank_1.except", "run/logs/launcher.log", "run/verdict.json"} <= set(found)
    assert len(left) <= len(kinds) * 5 // 200, {name: sorted(some) for name, some in found.items() if some}


@pytest.mark.job
@pytest.mark.timeout(300)
def test_the_user_sees_the_output_as_the_job_wrote_it(ran: Path, kinds: list[Shown]) -> None:
    seen = (ran / "seen").read_bytes()

    assert len(left_in(seen, kinds)) == len(kinds)
    kept = (ran / "run" / "logs" / "launcher.stdout.log").read_bytes()
    assert len(kept.splitlines()) == sum(len(shown.text.splitlines()) for shown in kinds)


@pytest.mark.job
@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", ["text", "json", "markdown", "html"])
def test_no_output_says_one(ran: Path, kinds: list[Shown], form: str) -> None:
    done = unhang("diagnose", ran / "run", "--format", form)

    left = left_in((done.stdout + done.stderr).encode(), kinds)
    assert len(left) <= len(kinds) * 5 // 200, left


def test_a_captured_log_is_cleaned_as_it_grows_and_moves_nothing(tmp_path: Path, kinds: list[Shown]) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"")
    masked = MaskedLog(path)
    for shown in kinds:
        with path.open("a") as log:
            log.write(f"{shown.text}\nstep 1 of 2\n")
        masked.tick(1.0)
    assert masked.finish(10.0) == 0

    whole = "".join(f"{shown.text}\nstep 1 of 2\n" for shown in kinds)
    cleaned = path.read_text()
    assert len(left_in(path.read_bytes(), kinds)) <= len(kinds) * 5 // 200
    assert path.stat().st_size == len(whole.encode())
    assert len(re.findall(r"^step 1 of 2$", cleaned, re.MULTILINE)) == len(kinds)


def test_a_log_that_went_away_costs_nothing(tmp_path: Path) -> None:
    masked = MaskedLog(tmp_path / "gone")

    assert not masked.tick(0.1)
    assert masked.finish(0.1) == 0
