"""What the source tells before anything runs: lonely collectives and splits without a seed, and their look-alikes."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.check.all_checks import ALL_CHECKS, look_around
from unhang.check.judge import judge
from unhang.findings import Cause, Severity, Status, Verdict
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import Plan

CHECK = [check for check in ALL_CHECKS if check.name == "program"]
HEAD = "import torch, torch.distributed as dist\nrank = dist.get_rank()\n"


def ask(folder: Path, program: str, command: str = "torchrun t.py") -> Verdict:
    (folder / "t.py").write_text(program)
    situation, gaps = look_around(Machine(), Plan(tuple(command.split())), CHECK)
    return judge([situation], ["program"], gaps)


pytestmark = pytest.mark.usefixtures("in_its_folder")


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (HEAD + "if rank == 0:\n    dist.barrier()\n", 4),
        (HEAD + "def save():\n    if rank != 0:\n        return\n    dist.all_reduce(x)\n", 6),
        (
            HEAD + "fully_shard(model)\nif rank == 0:\n    torch.save(model.state_dict(), 'x')\n",
            5,
        ),
        ("if accelerator.is_main_process:\n    accelerator.wait_for_everyone()\n", 2),
    ],
)
def test_a_collective_that_only_some_ranks_reach(program: str, line: int, tmp_path: Path) -> None:
    (finding,) = ask(tmp_path, program).findings

    assert finding.cause is Cause.RANK_CONDITIONAL_COLLECTIVE
    assert finding.where is not None
    assert finding.where.line == line


@pytest.mark.parametrize(
    "program",
    [
        HEAD + "dist.barrier()\nif rank == 0:\n    print('x')\n",
        HEAD + "if rank == 0:\n    torch.save(model.state_dict(), 'x')\n",  # whole parameters: no collective
        HEAD + "if rank != 0:\n    dist.barrier()\nwork()\nif rank == 0:\n    dist.barrier()\n",
        HEAD + "if rank == 0:\n    x = torch.gather(a, 0, i)\n",
        HEAD + "if step % 100 == 0:\n    dist.barrier()\n",
        "def broken(:\n",
        "",
    ],
)
def test_look_alikes(program: str, tmp_path: Path) -> None:
    assert ask(tmp_path, program).findings == ()


def test_a_split_without_a_seed_and_one_with(tmp_path: Path) -> None:
    without = ask(tmp_path, "parts = dataset.train_test_split(test_size=0.1)\n")
    seeded = ask(tmp_path, "parts = dataset.train_test_split(test_size=0.1, seed=42)\n")
    shuffled = ask(tmp_path, "import random\nrandom.shuffle(rows)\n")

    assert [(f.cause, f.severity) for f in without.findings] == [(Cause.UNEVEN_DATA, Severity.STOPS)]
    assert seeded.findings == ()
    assert [f.severity for f in shuffled.findings] == [Severity.NOTE]


def test_what_the_script_imports_from_beside_it_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/split.py").write_text("def f(d):\n    return d.train_test_split(0.1)\n")

    verdict = ask(tmp_path, "from data import split\nimport os, missing\nsplit.f(1)\n")

    assert [finding.subject for finding in verdict.findings] == ["data/split.py:2"]


def test_a_program_that_is_not_there_could_not_be_looked_at(tmp_path: Path) -> None:
    verdict = ask(tmp_path, "", "torchrun other.py")

    assert [gap.check for gap in verdict.not_checked] == ["program"]
    assert verdict.status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("", "no command was given"),
        ("bash run.sh", "was not followed"),
        ("torchrun t.py", "my_models"),
    ],
)
def test_a_program_that_was_not_read_whole_is_not_well(command: str, says: str, tmp_path: Path) -> None:
    verdict = ask(tmp_path, "import os, torch, my_models.vit\n", command)

    assert verdict.status is Status.UNKNOWN
    assert any(says in str(gap.because) for gap in verdict.not_checked)


def test_a_program_whose_own_files_were_all_read_is_well(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/__init__.py").write_text("from . import vit\nfrom .vit import Vit\nimport numpy as np\n")
    (tmp_path / "models/vit.py").write_text("import torch.nn as nn\n")

    verdict = ask(tmp_path, "import os\nfrom models import Vit\n")

    assert verdict.status is Status.HEALTHY
    assert any("(3 files)" in str(fine.what) for fine in verdict.checked)


@pytest.mark.parametrize(
    ("program", "wrong"),
    [
        ("DataLoader(d, num_workers=1)\n", ["waits for ever"]),
        ("DataLoader(d, num_workers=1, timeout=300)\n", []),
        ("DataLoader(d)\n", []),
        ("DataLoader(d, persistent_workers=True)\n", ["raises"]),
        ("DataLoader(d, num_workers=n, timeout=t)\n", []),
        ("DataLoader(d, num_workers=4096, timeout=9)\n", ["processes on"]),
        ("wds.WebDataset(urls)\n", ["whole shards"]),
        ("wds.WebDataset(urls, resampled=True)\n", []),
        ("wds.WebDataset(urls).with_epoch(100)\n", []),
    ],
)
def test_loaders(program: str, wrong: list[str], tmp_path: Path) -> None:
    said = [str(f.summary) for f in ask(tmp_path, program, "torchrun --nproc-per-node 2 t.py").findings]

    assert len(said) == len(wrong), said
    assert all(words in text for words, text in zip(wrong, said, strict=True))


WRITER = "from torch.utils.tensorboard import SummaryWriter\n"


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (WRITER + "w = SummaryWriter('tb')\nfor step in range(9):\n    w.flush()\n", 4),
        (WRITER + "class L:\n def __init__(s):\n  s.w = SummaryWriter('tb')\n def log(s):\n  s.w.flush()\n", 6),
    ],
)
def test_a_loop_that_waits_for_its_log(program: str, line: int, tmp_path: Path) -> None:
    (finding,) = ask(tmp_path, program).findings

    assert (finding.cause, finding.severity) == (Cause.SINGLE_RANK_WORK, Severity.SLOWS)
    assert finding.where is not None
    assert finding.where.line == line
    assert [str(remedy.title)[:5] for remedy in finding.remedies] == ["Write", "Give ", "Hand ", "Keep "]


@pytest.mark.parametrize(
    "program",
    [
        WRITER + "w = SummaryWriter('tb')\nw.flush()\n",
        WRITER + "w = SummaryWriter('tb')\ndef close():\n    w.flush()\n",
        WRITER + "w = unhang.BackgroundWriter(SummaryWriter('tb'))\nfor step in range(9):\n    w.flush()\n",
        "import sys\nfor step in range(9):\n    sys.stdout.flush()\n",
    ],
)
def test_a_log_that_is_flushed_once_or_by_a_thread_is_none(program: str, tmp_path: Path) -> None:
    assert ask(tmp_path, program).findings == ()


TOKENISES = """
from datasets import load_dataset
def get(args, data):
    with args.main_process_first(desc="load"):
        raw = load_dataset("json", data_files=data)
    with args.main_process_first(desc="tokenise"):
        return raw.map(encode, batched=True)
"""


def turnstile_risks(folder: Path, program: str, timeout: int) -> list[tuple[str | None, Severity]]:
    verdict = ask(folder, f"dist.init_process_group('nccl', timeout=timedelta(seconds={timeout}))\n{program}")
    waits = [one for one in verdict.findings if one.cause is Cause.SINGLE_RANK_WORK]
    assert all(f"{timeout:,} s at most" in str(one.summary) for one in waits)
    return [(one.subject, one.severity) for one in waits]


def test_a_barrier_around_a_tokenisation_is_named_with_the_limit_that_counts(tmp_path: Path) -> None:
    assert turnstile_risks(tmp_path, TOKENISES, 60) == [("t.py:7", Severity.SLOWS)]
    assert turnstile_risks(tmp_path, TOKENISES, 3600) == [("t.py:7", Severity.NOTE)]


@pytest.mark.parametrize(
    "program",
    [
        TOKENISES.replace("args.main_process_first", "unhang.rank_zero_first"),
        "from unhang import rank_zero_first\n" + TOKENISES.replace("args.main_process_first", "rank_zero_first"),
        "with accelerator.main_process_first():\n    os.makedirs(path)\n",
        "with accelerator.autocast():\n    data = raw.map(encode)\n",
    ],
)
def test_a_wait_on_the_store_and_short_work_are_no_risk(tmp_path: Path, program: str) -> None:
    assert turnstile_risks(tmp_path, program, 60) == []


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("def broken(:\n", "t.py"),
        ("import part\n", "part.py"),
        ("import importlib, sys\nimportlib.import_module(sys.argv[1])\n", "t.py:2"),
        ("import runpy\nrunpy.run_path('hidden.py')\n", "t.py:2"),
        ("exec(open('hidden.py').read())\n", "t.py:1"),
        ("import importlib\nimportlib.import_module('nowhere.at_all')\n", "nowhere.at_all"),
    ],
)
def test_a_program_of_which_a_part_cannot_be_read_is_not_called_well(program: str, names: str, tmp_path: Path) -> None:
    (tmp_path / "part.py").write_bytes(b"\xff\xfe\x00import torch\n")

    verdict = ask(tmp_path, program)

    assert verdict.status is Status.UNKNOWN
    assert names in " ".join(f"{gap.what} {gap.because}" for gap in verdict.not_checked)


def test_a_module_imported_by_a_given_name_is_read(tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text(HEAD + "if rank == 0:\n    dist.barrier()\n")

    (finding,) = ask(tmp_path, "import importlib\nimportlib.import_module('inner')\n").findings

    assert finding.where is not None
    assert finding.where.file.endswith("inner.py")


RATIO = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--ratio', type=float, default=0.0)\n"
SPLITS_BY_RATIO = (
    RATIO + "args = p.parse_args()\nif args.ratio > 0:\n    parts = dataset.train_test_split(args.ratio)\n"
)


def test_a_finding_in_a_branch_that_this_launch_never_takes_is_none(tmp_path: Path) -> None:
    by_default, asked_for = ask(tmp_path, SPLITS_BY_RATIO), ask(tmp_path, SPLITS_BY_RATIO, "torchrun t.py --ratio 0.1")

    assert by_default.findings == ()
    assert any("ratio=0.0 (t.py:3)" in str(fine.what) for fine in by_default.checked)
    assert [finding.subject for finding in asked_for.findings] == ["t.py:6"]


def test_a_seed_for_each_device_is_no_seed_of_all(tmp_path: Path) -> None:
    program = "from accelerate.utils import set_seed\nset_seed(1{})\ndataset.train_test_split(0.1)\n"

    assert ask(tmp_path, program.replace("{}", "")).findings == ()
    assert len(ask(tmp_path, program.replace("{}", ", device_specific=True")).findings) == 1
