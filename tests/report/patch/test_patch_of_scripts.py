"""Variables in the script that starts the program: one that nothing reads leaves it, one that is missing is added."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.patch.patching import apply, look, only_of, summaries

pytestmark = pytest.mark.usefixtures("in_its_folder")

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
