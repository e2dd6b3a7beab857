# ruff: noqa: W293 - an empty line of a diff is one blank
"""Each kind of edit: its diff to the byte, git takes it, and ``check`` no longer finds what it repairs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.report.patch.patching import apply, diff_of, look, make_repository, of_check, only_of, summaries

pytestmark = pytest.mark.usefixtures("in_its_folder")
TRAIN = "torchrun --nproc-per-node 2 train.py"

SEED = (
    "has no seed",
    """\
import datasets


def load(rows):
    parts = datasets.Dataset.from_list(rows).train_test_split(
        test_size=0.1,  # a tenth (of all)
    )
    return parts["train"]


load([])
""",
    """\
--- a/train.py
+++ b/train.py
@@ -3,7 +3,7 @@
 
 def load(rows):
     parts = datasets.Dataset.from_list(rows).train_test_split(
-        test_size=0.1,  # a tenth (of all)
+        test_size=0.1, seed=42,  # a tenth (of all)
     )
     return parts["train"]
 
""",
)
GENERATOR = (
    "has no seed",
    """\
import torch.distributed as dist
from torch.utils.data import random_split

dist.init_process_group("gloo")
train, test = random_split(range(10), [8, 2])
""",
    """\
--- a/train.py
+++ b/train.py
@@ -1,5 +1,6 @@
 import torch.distributed as dist
 from torch.utils.data import random_split
+import torch
 
 dist.init_process_group("gloo")
-train, test = random_split(range(10), [8, 2])
+train, test = random_split(range(10), [8, 2], generator=torch.Generator().manual_seed(42))
""",
)
SEED_CALL = (
    "has no seed",
    """\
import numpy as np

rows = np.arange(100)
kept = rows[np.random.rand(100) < 0.9]
""",
    """\
--- a/train.py
+++ b/train.py
@@ -1,4 +1,5 @@
 import numpy as np
 
 rows = np.arange(100)
+np.random.seed(42)
 kept = rows[np.random.rand(100) < 0.9]
""",
)
LIMIT = (
    "does not inherit",
    """\
from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("nccl", timeout=timedelta(hours=2), device_id=0)
side = dist.new_group([0, 1])
""",
    """\
--- a/train.py
+++ b/train.py
@@ -3,4 +3,4 @@
 import torch.distributed as dist
 
 dist.init_process_group("nccl", timeout=timedelta(hours=2), device_id=0)
-side = dist.new_group([0, 1])
+side = dist.new_group([0, 1], timeout=timedelta(seconds=7200))
""",
)
LIMIT_OF_DAYS = (
    "is 30 days",
    """\
import datetime as dt

import torch.distributed as dist

dist.init_process_group("gloo", timeout=dt.timedelta(days=30))
""",
    """\
--- a/train.py
+++ b/train.py
@@ -2,4 +2,4 @@
 
 import torch.distributed as dist
 
-dist.init_process_group("gloo", timeout=dt.timedelta(days=30))
+dist.init_process_group("gloo", timeout=dt.timedelta(seconds=7200))
""",
)
DEVICE = (
    "does not say which card",
    """\
import os

import torch
import torch.distributed as dist


def setup():
    dist.init_process_group("nccl")
    return os.environ["RANK"]


setup()
""",
    """\
--- a/train.py
+++ b/train.py
@@ -5,6 +5,7 @@
 
 
 def setup():
+    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
     dist.init_process_group("nccl")
     return os.environ["RANK"]
 
""",
)
BRANCH = (
    "only some ranks reach",
    """\
import torch.distributed as dist

rank = dist.get_rank()
for step in range(3):
    if rank == 0:
        print(step)

        # the others wait
        dist.barrier()
    print("next")
""",
    """\
--- a/train.py
+++ b/train.py
@@ -5,6 +5,6 @@
     if rank == 0:
         print(step)
 
-        # the others wait
-        dist.barrier()
+    # the others wait
+    dist.barrier()
     print("next")
""",
)
BRANCH_WHOLE = (
    "only some ranks reach",
    """\
import torch.distributed as dist

if dist.get_rank() == 0:
    # all are here
    dist.barrier()
""",
    """\
--- a/train.py
+++ b/train.py
@@ -1,5 +1,4 @@
 import torch.distributed as dist
 
-if dist.get_rank() == 0:
-    # all are here
-    dist.barrier()
+# all are here
+dist.barrier()
""",
)
BRANCH_FIRST = (
    "only some ranks reach",
    """\
import torch.distributed as dist

if dist.get_rank() == 0:
    dist.barrier()
    print("saved")
""",
    """\
--- a/train.py
+++ b/train.py
@@ -1,5 +1,5 @@
 import torch.distributed as dist
 
+dist.barrier()
 if dist.get_rank() == 0:
-    dist.barrier()
     print("saved")
""",
)
LOADER = (
    "waits forever for a worker",
    """\
from torch.utils.data import DataLoader

loader = DataLoader(list(range(8)), num_workers=2)
""",
    """\
--- a/train.py
+++ b/train.py
@@ -1,3 +1,3 @@
 from torch.utils.data import DataLoader
 
-loader = DataLoader(list(range(8)), num_workers=2)
+loader = DataLoader(list(range(8)), num_workers=2, timeout=300)
""",
)
EPOCH = (
    "set_epoch",
    """\
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main(data, step):
    train_sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=train_sampler)
    for epoch in range(3):
        # one pass
        for batch in loader:
            step(batch)


main([], print)
""",
    """\
--- a/train.py
+++ b/train.py
@@ -7,6 +7,7 @@
     loader = DataLoader(data, batch_size=8, sampler=train_sampler)
     for epoch in range(3):
         # one pass
+        train_sampler.set_epoch(epoch)
         for batch in loader:
             step(batch)
 
""",
)
KINDS = {
    "epoch": EPOCH,
    "seed": SEED,
    "generator": GENERATOR,
    "seed_call": SEED_CALL,
    "limit": LIMIT,
    "limit_of_days": LIMIT_OF_DAYS,
    "device": DEVICE,
    "branch": BRANCH,
    "branch_whole": BRANCH_WHOLE,
    "branch_first": BRANCH_FIRST,
    "loader": LOADER,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_edit_to_the_byte(kind: str, tmp_path: Path) -> None:
    words, program, diff = KINDS[kind]
    path = tmp_path / "train.py"
    path.write_text(program)

    patch = only_of(words, TRAIN)

    assert diff_of(patch) == diff
    apply(patch, tmp_path)
    ast.parse(path.read_text())
    assert [summary for summary in summaries(look(TRAIN)[0]) if words in summary] == []


SHUFFLED_AGAIN = {
    "given_by_a_function": ("step(batch)", "step(batch); batch.sampler.set_epoch(epoch)"),
    "not_shuffled": ("DistributedSampler(data)", "DistributedSampler(data, shuffle=False)"),
    "shuffled_if_asked": ("DistributedSampler(data)", "DistributedSampler(data, shuffle=bool(step))"),
    "given_away": ("    for epoch", "    step(train_sampler)\n    for epoch"),
    "not_always_there": ("DistributedSampler(data)", "DistributedSampler(data) if step else None"),
    "one_pass": ("    for epoch in range(3):", "    while True:"),
    "no_loader": ("sampler=train_sampler", "num_workers=0"),
    "a_library_does_it": ("main([], print)", "Trainer(main)"),
    "a_helper_not_read": ("main([], print)", "from ours_that_is_not_here import main"),
    "in_two_loops": ("\n\nmain(", "    for again in range(2):\n        step(loader)\n\n\nmain("),
}


@pytest.mark.parametrize("kind", SHUFFLED_AGAIN)
def test_a_sampler_that_may_get_its_epoch_is_left_alone(kind: str, tmp_path: Path) -> None:
    before, after = SHUFFLED_AGAIN[kind]
    assert before in EPOCH[1]
    (tmp_path / "train.py").write_text(EPOCH[1].replace(before, after))

    assert not any("set_epoch" in summary for summary in summaries(look(TRAIN)[0]))


def test_the_epoch_is_that_of_the_loop_that_reads_the_loader(tmp_path: Path) -> None:
    loops = "    for fold in range(2):\n        for epoch in tqdm(range(3)):\n            step(loader)\n"
    text = EPOCH[1][: EPOCH[1].index("    for epoch")]
    (tmp_path / "train.py").write_text(f"from tqdm import tqdm\n{text}{loops}\n\nmain([], print)\n")

    patch = only_of("set_epoch", TRAIN)

    assert "Safe to apply" in patch.text
    assert "+            train_sampler.set_epoch(epoch)\n             step(loader)" in patch.text


def test_of_two_samplers_read_in_one_loop_the_first_is_named(tmp_path: Path) -> None:
    second = "    other = DistributedSampler(data)\n    checked = DataLoader(data, sampler=other)\n"
    text = (
        EPOCH[1]
        .replace("    for epoch", f"{second}    for epoch")
        .replace("step(batch)\n", "step(batch)\n        step(checked)\n")
    )
    (tmp_path / "train.py").write_text(text)

    found = [summary for summary in summaries(look(TRAIN)[0]) if "set_epoch" in summary]

    assert len(found) == 1
    assert "train_sampler" in found[0]


def test_the_order_of_the_data_changes_after_it(tmp_path: Path) -> None:
    data = (
        "import torch.distributed as dist\n"
        "from torch.utils.data import DataLoader\nfrom torch.utils.data.distributed import DistributedSampler\n\n"
        "sampler = DistributedSampler(range(64), num_replicas=2, rank=0)\n"
        "loader = DataLoader(range(64), sampler=sampler)\nseen = []\n"
        "for epoch in range(2):\n    seen.append([int(batch) for batch in loader])\n"
    )
    path = tmp_path / "train.py"
    path.write_text(data)

    apply(only_of("set_epoch", TRAIN), tmp_path)

    before, after = ({}, {})
    exec(data, before)
    exec(path.read_text(), after)
    assert before["seen"][0] == before["seen"][1]
    assert after["seen"][0] != after["seen"][1]


SCRIPT = """\
#!/usr/bin/env bash
# NCCL_TIMEOUT: from a recipe
export NCCL_TIMEOUT=3600  # seconds
{prefix}torchrun --nproc-per-node 2 train.py
"""
SCRIPTS = {
    "line": (SCRIPT.format(prefix=""), SCRIPT.format(prefix="").replace("export NCCL_TIMEOUT=3600  # seconds\n", "")),
    "word": (
        "export NCCL_TIMEOUT=3600 OMP_NUM_THREADS=4\ntorchrun train.py\n",
        "export OMP_NUM_THREADS=4\ntorchrun train.py\n",
    ),
    "before_the_command": ("NCCL_TIMEOUT=3600 torchrun train.py\n", "torchrun train.py\n"),
    "line_of_a_command": ("NCCL_TIMEOUT='3600' \\\n  torchrun train.py\n", "  torchrun train.py\n"),
}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_an_export_that_nothing_reads_leaves_the_script(kind: str, tmp_path: Path) -> None:
    before, after = SCRIPTS[kind]
    (tmp_path / "run.sh").write_text(before)
    (tmp_path / "train.py").write_text("print()\n")

    patch = only_of("NCCL_TIMEOUT", "bash run.sh")
    apply(patch, tmp_path)

    assert "Read it before you apply it" in patch.text
    assert (tmp_path / "run.sh").read_text() == after
    assert not any("NCCL_TIMEOUT" in summary for summary in summaries(look("bash run.sh")[0]))


@pytest.mark.parametrize(
    "script",
    [
        "export NCCL_TIMEOUT=3600\necho $NCCL_TIMEOUT\ntorchrun train.py\n",
        "LIMIT=3600\nexport NCCL_TIMEOUT=$LIMIT\ntorchrun train.py\n",
        "if true; then\n  export NCCL_TIMEOUT=3600\nfi\ntorchrun train.py\n",
    ],
    ids=["read_by_the_script", "computed", "alone_in_a_block"],
)
def test_an_export_that_is_no_single_word_stays(script: str, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(script)
    (tmp_path / "train.py").write_text("print()\n")

    patch = only_of("NCCL_TIMEOUT", "bash run.sh")

    assert patch.edits == 0
    assert "it is not certain what to edit there" in patch.text


BARRIERS = {
    "in_the_middle": "if rank == 0:\n    print(1)\n    dist.barrier()\n    print(2)\n",
    "of_what_is_made_there": "if rank == 0:\n    loss = make()\n    dist.all_reduce(loss)\n",
    "at_times": "if rank == 0 and make():\n    print(1)\n    dist.barrier()\n",
    "with_another_arm": "if rank == 0:\n    dist.barrier()\nelse:\n    print(1)\n",
    "several_functions_down": "def together():\n    dist.barrier()\n\n\nif rank == 0:\n    together()\n",
    "left_before": "def f():\n    if rank == 0:\n        if make():\n            return\n        dist.barrier()\nf()\n",
}


@pytest.mark.parametrize("kind", BARRIERS)
def test_a_collective_that_cannot_just_leave_its_branch_stays(kind: str, tmp_path: Path) -> None:
    head = "import torch.distributed as dist\n\n\ndef make():\n    return object()\n\n\nrank = dist.get_rank()\n"
    (tmp_path / "train.py").write_text(head + BARRIERS[kind])

    verdict, here = look(TRAIN)
    patch = of_check(verdict, here)

    assert any("reach" in summary for summary in summaries(verdict))
    assert patch.edits == 0
    assert "@@" not in patch.text


ARGUMENTS = {
    "two_on_a_line": "a, b = random_split(x, [1, 1]), random_split(x, [1, 1])\n",
    "unpacked": "a = random_split(x, **parts)\n",
    "by_place": "a = random_split(x, [1, 1], None)\n",
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_a_call_that_may_have_the_argument_or_is_not_one_stays(kind: str, tmp_path: Path) -> None:
    head = "import torch\nfrom torch.utils.data import random_split\n\nx, parts = [1, 2], {}\n"
    (tmp_path / "train.py").write_text(head + ARGUMENTS[kind])

    patch = of_check(*look(TRAIN))

    assert "generator=" not in patch.text


@pytest.mark.parametrize(
    ("encoding", "newline"),
    [("utf-8", "\r\n"), ("gbk", "\n"), ("utf-8", "\n")],
    ids=["crlf", "gbk", "no_newline_at_end"],
)
def test_the_file_stays_as_it_is_written(encoding: str, newline: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    cookie = "" if encoding == "utf-8" else f"# coding: {encoding}\n"
    imports = "import os\nimport sys\nimport re\nimport datasets\n"
    text = f"{cookie}# 训练\n{imports}x = datasets.load_dataset('a').train_test_split(0.1)"
    path.write_bytes(text.replace("\n", newline).encode(encoding))

    patch = only_of("has no seed", TRAIN)
    apply(patch, tmp_path)

    assert path.read_bytes() == text.replace("0.1)", "0.1, seed=42)").replace("\n", newline).encode(encoding)


def test_two_edits_of_one_file_are_two_sections(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SEED[1] + LOADER[1])

    patch = of_check(*look(TRAIN))
    apply(patch, tmp_path)

    assert patch.edits == 2
    assert patch.text.count("--- a/train.py") == 2
    assert path.read_text() == SEED[1].replace("0.1,", "0.1, seed=42,") + LOADER[1].replace("=2)", "=2, timeout=300)")
    assert patch.text.startswith("# .train_test_split has no seed")


def test_paths_start_at_the_root_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(tmp_path)
    inner = tmp_path / "jobs"
    inner.mkdir()
    (inner / "train.py").write_text(SEED[1])
    (inner / "run.sh").write_text("cd deep\ntorchrun ../train.py\n")
    (inner / "deep").mkdir()
    monkeypatch.chdir(inner)

    patch = only_of("has no seed", "bash run.sh")

    assert "--- a/jobs/train.py\n+++ b/jobs/train.py\n" in patch.text
    apply(patch, tmp_path)
    assert "seed=42" in (inner / "train.py").read_text()


def test_a_file_that_has_changed_gets_none(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SEED[1])
    verdict, here = look(TRAIN)
    path.write_text("\n" + SEED[1])

    patch = of_check(verdict, here)

    assert patch.edits == 0
    assert "No patch for this: train.py has changed since it was read" in patch.text


@pytest.mark.parametrize(
    ("folder", "head"), [("", "# @generated by a tool\n"), ("site-packages/", "")], ids=["generated", "installed"]
)
def test_what_nobody_writes_by_hand_gets_none(folder: str, head: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "train.py").write_text(head + SEED[1])

    verdict, here = look(f"torchrun {folder}train.py")
    patch = of_check(verdict, here)

    assert verdict.findings
    assert patch.edits == 0
    assert "is generated or belongs to an installed package" in patch.text


def test_a_secret_beside_the_change_is_never_shown(tmp_path: Path) -> None:
    secret = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3f"
    path = tmp_path / "train.py"
    near = (
        f"import datasets\nTOKEN = '{secret}'\n{{}}rows = datasets.load_dataset('a').train_test_split(0.1)\nprint()\n"
    )
    for between, made in (("print(1)\n", 1), ("", 0)):
        path.write_text(near.format(between))

        patch = of_check(*look(TRAIN))

        assert secret not in patch.text
        assert patch.edits == made
        if made:
            apply(patch, tmp_path)


def test_where_no_fix_is_an_edit_one_sentence_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()\n")
    verdict, here = look(TRAIN)

    assert of_check(verdict, here).text == "# No patch: no fix here is a single, certain edit.\n"
    assert of_check(verdict, here, "zh").text == "# 没有补丁：这里的修改都不是只改一处就能确定的。\n"


RECORDER = "The flight recorder is off"
ADDED = "export TORCH_NCCL_TRACE_BUFFER_SIZE=2000\nexport TORCH_NCCL_DUMP_ON_TIMEOUT=1\n"


def test_what_no_line_sets_yet_is_added_before_the_command(tmp_path: Path) -> None:
    script = "#!/bin/bash\ncd .\ntorchrun --nproc-per-node 2 \\\n  train.py\n"
    (tmp_path / "run.sh").write_text(script)
    (tmp_path / "train.py").write_text("print()\n")

    apply(only_of(RECORDER, "bash run.sh", torch="2.6"), tmp_path)

    assert (tmp_path / "run.sh").read_text() == script.replace("torchrun", f"{ADDED}torchrun")
    assert not any(RECORDER in summary for summary in summaries(look("bash run.sh", torch="2.6")[0]))


@pytest.mark.parametrize("script", ["docker run image torchrun train.py\n", "mpirun -np 2 python train.py\n"])
def test_an_export_that_would_not_reach_the_program_is_not_added(script: str, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(script)
    (tmp_path / "train.py").write_text("print()\n")

    assert only_of(RECORDER, "bash run.sh", torch="2.6").edits == 0
